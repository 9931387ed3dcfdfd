// Package slim keeps code out of programs that do not use it, and out of packages that need not compile it.
package slim

// Of returns the one of f32 and f64 that is an F. They do the work of a generic method, as functions of float32 and of
// float64.
//
// The linker keeps everything that the dictionary of a generic type names: all that its methods need, called or not.
// Functions instantiated by name are in no dictionary, so only a program that calls the method has them.
//
// The compiler instantiates a generic function again in every package that can reach it. It does not look into the
// variables of another package: if f32 and f64 are package variables, as in
//
//	var forward32, forward64 any = forward[float32], forward[float64]
//
// only the package that declares them compiles the functions.
func Of[F any](f32, f64 any) F {
	if f, ok := f32.(F); ok {
		return f
	}
	return f64.(F)
}
