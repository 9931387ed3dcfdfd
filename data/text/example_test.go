package text_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
)

// object is the content of a file in a store; a real one fetches ranges of bytes.
type object struct{ *bytes.Reader }

func (object) Close() error { return nil }

// A table in an object store is read without a copy on disk. A word among numbers counts as missing, unless the reader
// is strict; then the error names its place.
func ExampleOpenStream() {
	content := []byte("day,load\n1,51.5\n2,broken\n")
	open := func() (io.ReadCloser, error) { return object{bytes.NewReader(content)}, nil }
	for _, strict := range []bool{false, true} {
		src, err := text.OpenStream("bucket/load.csv", int64(len(content)), open, data.Options{Strict: strict})
		if err != nil {
			panic(err)
		}
		r, err := src.Open([]data.Kind{data.Number, data.Number})
		if err != nil {
			panic(err)
		}
		var b data.Block
		err = r.Read(&b, 100)
		if errors.Is(err, data.ErrUnreadable) {
			fmt.Println(err)
		} else {
			fmt.Println(b.Cols[1].Num, err)
		}
		r.Close()
	}
	// Output:
	// [51.5 NaN] <nil>
	// bucket/load.csv:3:3: column "load" is "broken", want a number
}
