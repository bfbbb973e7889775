# Everything runs in .venv, which is made on first use. PYTHON=python3.12 make ... chooses the interpreter;
# PYTEST_FLAGS, DEMO_FLAGS, MATRIX_FLAGS, ARM_FLAGS, BENCH_FLAGS, CORUNDUM_FLAGS, FORMAL_FLAGS and SOAK_FLAGS
# are passed on.

PYTHON ?= python3
PYTEST_FLAGS ?=
DEMO_FLAGS ?=
MATRIX_FLAGS ?=
MINUTES ?= 10
KILLS ?= 100
SOAK_FLAGS ?=
FORMAL_FLAGS ?=
CORUNDUM_FLAGS ?=
VENV := .venv
BIN := $(VENV)/bin
PROGRESS := .ci/progress
PIP_OF = $(PROGRESS) installing $(1)/python -m pip --disable-pip-version-check --quiet
PIP := $(call PIP_OF,$(BIN))
# Without host/fanin/include, which every installation writes anew.
CORE := setup.py $(shell find host/fanin -path host/fanin/include -prune -o -name '*.[ch]' -print) \
  $(wildcard host/fanin/*/exports.map) $(wildcard protocol/fanin_wire/*.h)
PEERS := openmpi mpich
BENCH_FLAGS ?=
ARCH ?= $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)
NCCL_TAG := v2.30.7-1
UCC_TAG := v1.8.0
CORUNDUM_COMMIT := 1ca0151b97af85aa5dd306d74b6bcec65904d2ce
CORUNDUM_BIN := .bench/corundum/environment/bin
TORCH ?= torch==2.13.0+cpu
TORCHFT := torchft==0.2.0
TORCH_BIN := .bench/torch/bin

.PHONY: help install demo test test-quick test-long sanitize lint tables docs wheel topology conform matrix models rdma rdma-kills arm image image-trial hostile cosim cosim-mutants formal synthesis corundum peers mpi4py-suite nccl ucc torch torch-suite torch-bench training gpu bench soak clean
.DEFAULT_GOAL := help

# Before anything is installed or fetched: what the targets need of this machine.
ifneq ($(shell PYTHON='$(PYTHON)' VENV='$(VENV)' CC='$(CC)' ARCH='$(ARCH)' .ci/needs $(MAKECMDGOALS) >&2; echo $$?),0)
  $(error NOT_SUPPORTED)
endif

help:
	@echo "make demo    one allreduce in three networks, every collective over every route, verified; what each link carried"
	@echo "make test    all tests that this machine allows; what is skipped says why"
	@echo "make test-quick  whether a change is sane, in two minutes: unit tests, host driver, fabrics, code of the pages"
	@echo "make test-long   the tests that take minutes and are not part of make test: every mutant of the engine, ..."
	@echo "make sanitize  the programs in C of the tests, with the sanitizers of addresses, leaks, undefined behaviour, threads"
	@echo "make lint    ruff and mypy"
	@echo "make tables  the tables in C, Lua, Verilog and Markdown, from the definitions in fanin_wire"
	@echo "make docs    the documentation as a site, in build/site; a warning is an error"
	@echo "make wheel   a wheel in dist, installed into a bare environment, which runs a demonstration"
	@echo "make conform the conformance suite against switches and NICs, in process and over UDP"
	@echo "make matrix  every collective x shape x op x type x size against numpy (minutes; MATRIX_FLAGS)"
	@echo "make models  every search of the models and the engine, state by state (minutes; needs spin)"
	@echo "make rdma    RDMA against the kernel's RoCE in a virtual machine, ranks over RDMA: every case (minutes; Debian)"
	@echo "make rdma-kills  kills of ranks over RDMA and of their devices, KILLS=100, by a seed (FANIN_TEST_RDMA_SEED sets it)"
	@echo "make arm     on emulated Arm: driver, device code, tests, a demonstration, ranks of x86 on it (minutes; Debian; ARM_FLAGS)"
	@echo "make image   an image for containers with compiled device code, in build/image; ARCH=arm64 or \"amd64 arm64\" (Debian)"
	@echo "make image-trial  a demonstration by that image, in namespaces, with a root that can not be written (as root)"
	@echo "make hostile hostile packets against the transport of ordinary RDMA traffic, MINUTES=10 (HOSTILE_FLAGS=--seed=N)"
	@echo "make cosim   the switch in Verilog, simulated: its modules, and packet by packet (COSIM_FLAGS=--packets=N --vectors=N)"
	@echo "make cosim-mutants  the switch in Verilog broken in one place at a time: its tests must notice (forty minutes)"
	@echo "make formal  a proof, by induction, of the rules of slots in the Verilog (a minute; FORMAL_FLAGS=faults breaks the Verilog, it must fail)"
	@echo "make synthesis  cells, levels and clocks of the Verilog on FPGAs, against the table in fpga_cosim/syn (minutes)"
	@echo "make corundum  the switch in Verilog in corundum's own testbench, beside its NIC (10 minutes; fetches corundum; CORUNDUM_FLAGS=children: 2)"
	@echo "make peers   Open MPI and MPICH, each in an environment in .bench, and the tests of mpi4py: for make test and make bench"
	@echo "make nccl    the tables, arguments and layouts of the plugin for NCCL against NCCL's headers, and 10,000 collectives (fetches NCCL)"
	@echo "make ucc     libsharp_coll for UCC: UCC's own tests with it, and 10,000 collectives (fetches and builds UCC)"
	@echo "make torch   the back-end of PyTorch beside Gloo, with torch's wheel for CPUs in .bench (TORCH=torch==VERSION)"
	@echo "make torch-suite  torch's own tests of back-ends on Fanin, and on Gloo to compare; torchft's tests of groups"
	@echo "make topology  public topologies, plans, a trace of GPU nodes, the device plugin, hand-offs over shaped links (fetches; as root)"
	@echo "make training  training over fabrics: bounded staleness, replacement of a lost node, each in its long form"
	@echo "make gpu     what needs a GPU: NCCL, training and hand-offs with tensors there (PYTHON=one that has PyTorch with CUDA, and Fanin with the extra test)"
	@echo "make torch-bench  tensors in registered memory; steps of DDP and FSDP2 beside Gloo and MPICH, on one node and over 4 hosts (minutes; as root), a plot in build"
	@echo "make mpi4py-suite  the collective tests of mpi4py under the MPI shim, all of them (an hour and a half)"
	@echo "make bench   allreduce beside Open MPI and MPICH (installed into .bench), a short form"
	@echo "make soak    simulation, hostile input and real faults in turns, MINUTES=10 (SOAK_FLAGS=--seed=N)"
	@echo "make install only the environment, in $(VENV)"
	@echo "make clean   remove what was made here"

install: $(VENV)/.installed

$(VENV)/.made:
	@echo "== making $(VENV)"
	@$(PROGRESS) "making $(VENV)" $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml $(CORE)
	@echo "== installing fanin and what it needs (once; numba is large), building the driver core"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	@echo "== installing what tests and lint need"
	@$(PIP) install --editable '.[test,lint]'
	@touch $@

$(VENV)/.simulated: $(VENV)/.tested pyproject.toml
	@echo "== installing what the co-simulation needs"
	@$(PIP) install --editable '.[cosim]'
	@touch $@

$(VENV)/.documented: $(VENV)/.installed
	@echo "== installing what the documentation needs"
	@$(PIP) install --editable '.[docs]'
	@touch $@

$(VENV)/.packaged: $(VENV)/.installed
	@echo "== installing what makes packages"
	@$(PIP) install --editable '.[package]'
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/fanin demo $(DEMO_FLAGS)

test: $(VENV)/.tested
	@.ci/tests $(PYTEST_FLAGS)

test-quick: $(VENV)/.tested
	@$(BIN)/python -m pytest -m quick --numprocesses 2 --dist loadgroup $(PYTEST_FLAGS)

test-long: $(VENV)/.tested
	@$(BIN)/python -m pytest --part long --numprocesses auto --maxprocesses 8 --dist loadgroup $(PYTEST_FLAGS)

sanitize: $(VENV)/.tested
	@.ci/sanitize

conform: $(VENV)/.installed
	@$(BIN)/fanin conform --target engine
	@$(BIN)/fanin conform --target switch
	@$(BIN)/fanin conform --target reference
	@$(BIN)/fanin conform --target engine-nic
	@$(BIN)/fanin conform --target nic
	@$(BIN)/fanin conform --target nic-lanes nic_lanes
	@$(BIN)/fanin conform --target switch --conversations 20

matrix: $(VENV)/.installed
	@$(BIN)/fanin matrix $(MATRIX_FLAGS)

models: $(VENV)/.tested
	@$(BIN)/python -m tests.sim.model_check.models

rdma: $(VENV)/.tested
	@FANIN_TEST_RDMA=all $(BIN)/python -m pytest tests/rdma tests/e2e/test_rdma_host.py $(PYTEST_FLAGS)

rdma-kills: $(VENV)/.tested
	@FANIN_TEST_RDMA_KILLS=$(KILLS) $(BIN)/python -m pytest -s tests/e2e/test_rdma_host.py::test_kills $(PYTEST_FLAGS)

arm: $(VENV)/.tested
	@$(BIN)/python -m tests.arm $(ARM_FLAGS)

image: $(VENV)/.installed
	@$(BIN)/python -m fanin_image $(ARCH)

image-trial: $(VENV)/.tested
	@for each in $(ARCH); do $(BIN)/python -m tests.deploy.image_trial build/image/fanin-$$each.tar || exit; done

hostile: $(VENV)/.installed
	@$(BIN)/python -m fanin_sim.hostile --seconds $$((60 * $(MINUTES))) --processes 2 $(HOSTILE_FLAGS)

cosim: $(VENV)/.simulated
	@$(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile fpga_cosim/tb $(COSIM_FLAGS)

cosim-mutants: $(VENV)/.simulated
	@$(BIN)/python -m fpga_cosim.tb.mutants

$(VENV)/.synthesised: $(VENV)/.simulated pyproject.toml
	@echo "== installing what synthesis and proofs need"
	@$(PIP) install --editable '.[synthesis]'
	@touch $@

synthesis: $(VENV)/.synthesised
	@$(PROGRESS) synthesising $(BIN)/python -m fpga_cosim.syn.synthesis

formal: $(VENV)/.synthesised
	@$(PROGRESS) proving $(BIN)/python -m fpga_cosim.formal.formal $(FORMAL_FLAGS)

.bench/corundum/source:
	@echo "== fetching corundum into .bench/corundum"
	@git init --quiet $@.part
	@$(PROGRESS) fetching git -C $@.part fetch --quiet --depth 1 https://github.com/corundum/corundum $(CORUNDUM_COMMIT) \
	  && git -C $@.part checkout --quiet FETCH_HEAD || { rm -rf $@.part; \
	  echo "fanin: NOT_SUPPORTED: corundum can not be fetched here; put a clone of it, at $(CORUNDUM_COMMIT), into $@"; exit 1; }
	@mv $@.part $@

# Versions as in corundum's tox.ini (docs/dependencies.md).
.bench/corundum/.installed: $(VENV)/.made pyproject.toml $(CORE)
	@echo "== installing cocotb and fanin into .bench/corundum"
	@$(PYTHON) -m venv .bench/corundum/environment
	@$(call PIP_OF,$(CORUNDUM_BIN)) install cocotb==1.7.2 cocotb-bus==0.2.1 \
	  cocotb-test==0.2.4 cocotbext-axi==0.1.24 cocotbext-eth==0.1.22 cocotbext-pcie==0.2.14 \
	  || { echo "fanin: NOT_SUPPORTED: cocotb can not be installed here"; exit 1; }
	@$(call PIP_OF,$(CORUNDUM_BIN)) install --editable .
	@touch $@

corundum: .bench/corundum/source .bench/corundum/.installed
	@$(CORUNDUM_BIN)/python -m fpga_cosim.corundum.testbench .bench/corundum/source $(CORUNDUM_FLAGS)

lint: $(VENV)/.tested
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(PROGRESS) "checking types" $(BIN)/mypy

tables: $(VENV)/.installed
	@$(BIN)/python -m fanin_wire.generate

docs: $(VENV)/.documented
	@NO_MKDOCS_2_WARNING=1 $(PROGRESS) "building the site" $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

wheel: $(VENV)/.packaged
	@echo "== building the wheel, from a source distribution"
	@rm -rf dist && mkdir -p build
	@$(PROGRESS) building sh -c '$(BIN)/python -m build --outdir dist . >build/wheel.log 2>&1' || { cat build/wheel.log; exit 1; }
	@PYTHON=$(PYTHON) .ci/try-wheel dist/*.whl

.bench/%/.installed: $(VENV)/.made
	@echo "== installing $* and mpi4py into .bench/$*"
	@$(PYTHON) -m venv .bench/$*
	@$(call PIP_OF,.bench/$*/bin) install '$*>=5,<6' 'mpi4py>=4,<5' 'numpy>=2,<3'
	@touch $@

# The tests of mpi4py are only in its source distribution: that of the version that has been installed.
.bench/mpi4py/.installed: $(PEERS:%=.bench/%/.installed)
	@echo "== fetching the tests of mpi4py into .bench/mpi4py"
	@rm -rf .bench/mpi4py && mkdir -p .bench/mpi4py
	@$(PIP) download --no-deps --no-binary mpi4py --dest .bench/mpi4py \
	  mpi4py==$$(.bench/mpich/bin/python -c 'from importlib.metadata import version; print(version("mpi4py"))')
	@tar --extract --file $$(echo .bench/mpi4py/mpi4py-*.tar.gz) --directory .bench/mpi4py --strip-components 1
	@touch $@

peers: $(PEERS:%=.bench/%/.installed) .bench/mpi4py/.installed

mpi4py-suite: $(VENV)/.tested peers
	@FANIN_TEST_MPI4PY=all $(BIN)/python -m pytest -s tests/mpi/test_mpi4py_suite.py $(PYTEST_FLAGS)

# For the sample of tests/torch in `make test`. Its thousands of files are compiled when they are used.
$(VENV)/.with-torch: $(VENV)/.tested
	@echo "== installing $(TORCH)"
	@$(PIP) install --no-compile '$(TORCH)'
	@touch $@

.bench/torch/.installed: $(VENV)/.made pyproject.toml $(CORE)
	@echo "== installing $(TORCH) and fanin into .bench/torch"
	@$(PYTHON) -m venv .bench/torch
	@$(call PIP_OF,$(TORCH_BIN)) install '$(TORCH)' scikit-learn expecttest \
	  || { echo "fanin: NOT_SUPPORTED: pip can not get $(TORCH) here; make torch TORCH=torch==VERSION takes another"; exit 1; }
	@$(call PIP_OF,$(TORCH_BIN)) install --editable '.[test,plot]'
	@touch $@

torch: .bench/torch/.installed
	@FANIN_TEST_TORCH=all $(TORCH_BIN)/python -m pytest tests/torch $(PYTEST_FLAGS)

.bench/torch/.with-torchft: .bench/torch/.installed
	@echo "== installing torchft into .bench/torch"
	@$(call PIP_OF,$(TORCH_BIN)) install $(TORCHFT) parameterized '$(TORCH)'
	@touch $@

torch-suite: .bench/torch/.installed
	@$(TORCH_BIN)/python -m tests.torch.compare
	@if $(MAKE) --no-print-directory .bench/torch/.with-torchft; then $(TORCH_BIN)/python -m tests.torch.torchft_groups; \
	  else echo "torchft's tests are left out: it can not be installed here"; fi

.bench/torch/.with-mpich: .bench/torch/.installed
	@echo "== installing MPICH and mpi4py into .bench/torch"
	@$(call PIP_OF,$(TORCH_BIN)) install 'mpich>=5,<6' 'mpi4py>=4,<5'
	@touch $@

torch-bench: .bench/torch/.with-mpich
	@$(TORCH_BIN)/python -m tests.torch.call_times
	@$(TORCH_BIN)/python -m tests.torch.tensor_times
	@$(TORCH_BIN)/python -m tests.torch.step_times $(BENCH_FLAGS)

.bench/nccl:
	@echo "== fetching NCCL $(NCCL_TAG) into .bench/nccl"
	@$(PROGRESS) fetching git -c advice.detachedHead=false clone --quiet --depth 1 --branch $(NCCL_TAG) https://github.com/NVIDIA/nccl $@ \
	  || { echo "fanin: NOT_SUPPORTED: NCCL can not be fetched here; put a clone of it into $@"; exit 1; }

nccl: .bench/nccl $(VENV)/.tested
	@$(BIN)/python -m tests.nccl_lib.headers .bench/nccl
	@FANIN_TEST_NCCL=10000 $(BIN)/python -m pytest tests/nccl_lib $(PYTEST_FLAGS)

.bench/ucc/source:
	@echo "== fetching UCC $(UCC_TAG) into .bench/ucc"
	@$(PROGRESS) fetching git -c advice.detachedHead=false clone --quiet --depth 1 --branch $(UCC_TAG) https://github.com/openucx/ucc $@ \
	  || { echo "fanin: NOT_SUPPORTED: UCC can not be fetched here; put a clone of it into $@"; exit 1; }

# UCX is what UCC's other layer, ucp, stands on. This UCC needs 1.15 or newer, which Debian 12 has not.
.bench/ucc/ucx:
	@echo "== installing UCX into .bench/ucc"
	@$(PIP) install --no-deps --target $@.part 'libucx-cu12>=1.18,<2'
	@find $@.part -name '*.la' -delete # they name a folder of the machine where the wheel was made
	@mv $@.part/libucx $@
	@rm -r $@.part

# As its users build it: against the folder of libsharp_coll.
.bench/ucc/.installed: $(VENV)/.tested $(wildcard host/fanin/sharp_lib/include/sharp/api/*.h) | .bench/ucc/source .bench/ucc/ucx
	@echo "== building UCC (some minutes; .bench/ucc/build.log)"
	@mkdir -p .bench/ucc/build
	@prefix=$$($(BIN)/fanin sharp-prefix) && ( (cd .bench/ucc/source && ./autogen.sh) && cd .bench/ucc/build \
	  && ../source/configure --prefix=$(CURDIR)/.bench/ucc/installed --with-sharp=$$prefix --with-ucx=$(CURDIR)/.bench/ucc/ucx \
	  --with-mpi --with-tls=ucp,sharp --without-cuda --without-rocm --disable-gtest --disable-static \
	  LDFLAGS=-Wl,-rpath,$$prefix/lib && $(MAKE) -j2 install CFLAGS="-O1 -DNDEBUG -std=gnu11") \
	  >.bench/ucc/build.log 2>&1 || { tail -20 .bench/ucc/build.log; exit 1; }
	@touch $@

ucc: .bench/ucc/source .bench/ucc/.installed
	@$(BIN)/python -m tests.sharp_lib.ucc .bench/ucc/installed
	@FANIN_TEST_UCC=10000 $(BIN)/python -m pytest tests/sharp_lib $(PYTEST_FLAGS)

.bench/topologies/.fetched: .ci/fetch-topologies
	@mkdir -p .bench/topologies && .ci/fetch-topologies .bench/topologies && touch $@

topology: .bench/topologies/.fetched $(VENV)/.tested
	@$(BIN)/python -m tests.cluster.survey .bench/topologies
	@$(BIN)/python -m fanin_cluster.placement.trace .bench/topologies/alibaba/openb_node_list_gpu_node.csv \
	  .bench/topologies/alibaba/openb_pod_list_default.csv
	@FANIN_TEST_PLANS=10000 FANIN_TEST_ALLOCATIONS=1000 $(BIN)/python -m pytest tests/cluster tests/device_plugin $(PYTEST_FLAGS)
	@if [ "$$(id -u)" = 0 ]; then for rate in 200mbit 1gbit; do $(BIN)/python -m tests.cluster.shaped $$rate || exit; done; \
	  else echo "hand-offs over shaped links are left out: namespaces need root"; fi

# PYTHON is one that has PyTorch with CUDA, and Fanin with the extra `test`.
gpu:
	@$(PYTHON) -m tests.gpu

$(VENV)/.with-torchft: $(VENV)/.with-torch
	@echo "== installing torchft"
	@$(PIP) install --no-compile $(TORCHFT) '$(TORCH)'
	@touch $@

training: $(VENV)/.with-torch
	@FANIN_TEST_TRAINING=full $(BIN)/python -m pytest tests/training $(PYTEST_FLAGS)
	@$(BIN)/python -m tests.training.staleness.measure
	@$(BIN)/python -m tests.training.replacement.measure
	@$(BIN)/python -m tests.training.replacement.torchrun
	@if $(MAKE) --no-print-directory $(VENV)/.with-torchft; then $(BIN)/python -m tests.training.replacement.torchft; \
	  else echo "torchft is left out: it can not be installed here"; fi

bench: $(VENV)/.installed
	@for peer in $(PEERS); do $(MAKE) --no-print-directory .bench/$$peer/.installed \
	  || echo "$$peer can not be installed here: measuring without it"; done
	@$(BIN)/fanin bench $(BENCH_FLAGS)

soak: $(VENV)/.installed
	@$(BIN)/fanin soak --minutes $(MINUTES) $(SOAK_FLAGS)

clean:
	@rm -rf $(VENV) .bench build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis host/fanin/*.so host/fanin/include
	@find protocol device host tools tests -name __pycache__ -type d -prune -exec rm -rf {} +
