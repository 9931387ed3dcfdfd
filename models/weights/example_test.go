package weights_test

import (
	"fmt"

	"github.com/randfeat/randfeat/models/weights"
)

// A block of Q8_0 is a scale in half precision and 32 whole numbers.
func ExampleTensor_Floats() {
	t := weights.Tensor{Name: "a", Type: weights.Q8_0, Shape: []int{1, 32}, Data: make([]byte, 34)}
	t.Data[1] = 0x38 // 0.5 in half precision
	t.Data[2], t.Data[33] = 3, 0xff
	x := t.Floats(nil)
	fmt.Println(x[0], x[1], x[31])
	// Output: 1.5 0 -0.5
}
