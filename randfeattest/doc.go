// Package randfeattest tests feature maps for conformance.
//
// # Usage
//
// Call [Map] in a test with a spec. It checks that rows do not depend on their neighbours, that strided views
// equal packed ones, that float32 is near float64, that JSON round trips, that any number of threads gives the
// same bits, that inputs stay intact, and that a workspace avoids allocation:
//
//	func TestMyFamily(t *testing.T) { randfeattest.Map(t, spec) }
package randfeattest
