// Package triton writes GPU kernels in Triton IR from Go. XLA's GPU plugin compiles that IR itself, so a Go program
// runs its own kernels without a CUDA toolkit, without cgo and without binary files.
//
//	k := triton.New("scale")
//	x, y := k.Arg("x", triton.F32), k.Arg("y", triton.F32)
//	at := k.Program(0).Mul(k.Int(64)).Add(k.Range(64))
//	k.Store(y.At(at), k.Load(x.At(at)).Mul(k.Float(2)))
//
// A Value is a scalar or a tile (a small array with sizes known when the kernel is built). Operations check their
// shapes at once and panic if they do not fit: a kernel that was built is well formed. Operands are broadcast as in
// NumPy, with explicit new axes (Column, Row).
//
// Text is the kernel in MLIR. Run executes it on the CPU, for tests.
//
// Files in reading order: doc, value, kernel (memory, loops), ops, text, run, call (the custom call of XLA).
package triton
