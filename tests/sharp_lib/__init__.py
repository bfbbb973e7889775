"""The libsharp_coll for UCC, called as UCC calls it, on the NICs of a fabric."""
