package tabular

import "testing"

// chosenFor makes the choices of a fit.
func chosenFor(t *testing.T, in job) *chosen {
	t.Helper()
	c, err := begin(in, new(journal), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
