package choose_test

import (
	"encoding/json"
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/internal/heads"
)

// Choose once, on a sample of a model's queries, keys and values; save the choice; use it.
func Example() {
	q, k, v := heads.Generate[float32](4, 512, 32, 1, 2, 3, 4) // four heads over four texts

	// Without ByCost or Rates, Choose measures the speed of this machine, and the output below would depend on it.
	choice, err := choose.Choose(choose.Options{Tol: 0.1, ByCost: true}, attention.Visibility{}, 0, q, k, v)
	if err != nil {
		fmt.Println(err)
		return
	}
	saved, err := json.Marshal(choice)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Elsewhere, for other texts:
	read := new(choose.Choice)
	if err := json.Unmarshal(saved, read); err != nil {
		fmt.Println(err)
		return
	}
	a, err := choose.New(read)
	if err != nil {
		fmt.Println(err)
		return
	}
	q, k, v = heads.Generate[float32](4, 512, 32, 5)
	out := attention.NewSeq[float32](1, 4, 512, 32)
	if _, err := a.Forward(out, q, k, v); err != nil {
		fmt.Println(err)
		return
	}
	check, err := choose.NewCheck(attention.Visibility{}, 0, q, k, v, 0, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, all, err := check.ErrorsOf(out)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("less than half of the cost of exact attention:", choice.Cost() < 0.5*256)
	fmt.Println("within the tolerance:", all.Error < 0.1)
	// Output:
	// less than half of the cost of exact attention: true
	// within the tolerance: true
}
