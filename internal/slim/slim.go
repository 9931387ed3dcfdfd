// Package slim keeps what a program does not use out of it.
package slim

// Of is the one of f32 and f64 that is an F: what a generic method does, as functions of float32 and of float64.
//
// The linker keeps everything that the dictionary of a generic type names, and that is what all of its methods need,
// called or not. Functions instantiated by name are in no dictionary: only a program that calls the method has them.
func Of[F any](f32, f64 any) F {
	if f, ok := f32.(F); ok {
		return f
	}
	return f64.(F)
}
