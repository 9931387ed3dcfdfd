// Package randfeattest holds conformance suites: what every family, coupling and map of randfeat promises, as tests
// that an implementation calls with its own values.
package randfeattest
