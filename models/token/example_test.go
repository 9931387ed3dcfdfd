package token_test

import (
	"fmt"

	"github.com/randfeat/randfeat/models/token"
)

func Example() {
	t, err := token.Open("testdata/bert") // a folder with tokenizer.json
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := t.Encode(nil, "random features")
	input := t.Wrap(nil, ids, 128) // with the markers that the model expects
	fmt.Println(t.Decode(ids), len(input)-len(ids))
	// Output: random features 2
}
