package decoder_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/gguf"
	"github.com/randfeat/randfeat/models/internal/tiny"
)

var benchModel = flag.String("model", "", "GGUF `file` to measure")

// BenchmarkSession measures tokens per second of a model, and per second of processor time, which other programs
// disturb less. Token ids are arbitrary: the speed does not depend on them.
//
//	go test ./decoder -run - -bench Session -model smollm2.gguf -cpu 1,2
func BenchmarkSession(b *testing.B) {
	if *benchModel == "" {
		b.Skip("-model names no file")
	}
	f, err := gguf.Open(*benchModel)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	m, err := decoder.New(f, decoder.Options{Quantised: true})
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]int32, 1024)
	for i := range ids {
		ids[i] = int32(100 + i*7919%(f.Config().Vocab-200))
	}
	read := func(n int) *decoder.Session {
		s, err := m.NewSession(nil)
		if err == nil {
			_, err = s.Append(ids[:n]...)
		}
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	for _, n := range []int{256, 1024} {
		b.Run(fmt.Sprintf("read/%d", n), func(b *testing.B) {
			defer tiny.Rate(b, n)()
			for b.Loop() {
				read(n)
			}
		})
	}
	for _, n := range []int{16, 1024} {
		b.Run(fmt.Sprintf("generate/%d", n), func(b *testing.B) {
			base := read(n)
			defer tiny.Rate(b, 32)()
			for b.Loop() {
				s := base.Fork()
				for i := range 32 {
					if _, err := s.Append(ids[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
