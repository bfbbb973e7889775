"""Pages are read rightly: languages, titles, reasons, and blocks that are made by indentation."""

from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_of, indented_blocks

pytestmark = pytest.mark.unit

PAGE = """# A page

```sh title="not run: needs root"
ip netns list
```

- an item

    that goes on

```
no language
```

Text:

    indented

```python
x = 1

    y = 2
```
"""


def test_blocks_and_their_reasons(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    first, second, third = blocks_of(page)
    assert first == Block(3, "sh", "not run: needs root", "ip netns list\n")
    assert first.reason == "needs root"
    assert (second.line, second.language, second.reason) == (11, "", "")
    assert (third.language, third.text) == ("python", "x = 1\n\n    y = 2\n")
    assert indented_blocks(page) == [17]
