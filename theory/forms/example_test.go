package forms_test

import (
	"fmt"

	"github.com/randfeat/randfeat/theory/forms"
)

// The parameter of OPRF that minimises the variance for d = 64 and |x+y|² = 16 (CRT Theorem 3.3).
func ExampleAStar() {
	fmt.Printf("%.4f\n", forms.AStar(64, 16))
	// Output: -0.0976
}
