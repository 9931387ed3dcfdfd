package decoder_test

import (
	"compress/gzip"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/token"
)

var (
	compactTexts     = flag.Int("compact", 0, "measure compaction of SmolLM2 on so many texts of WikiText-2")
	compactContext   = flag.Int("compact-context", 2048, "tokens of a context")
	compactQuantised = flag.Bool("compact-quantised", false, "with weights and activations of 8 or 4 bits")
)

// Perplexity of the 512 tokens after a context, compacted to an eighth with equal budgets, is between that of the full
// cache and that of sinks and window of the same size.
func TestCompactSmolLM2(t *testing.T) {
	if *compactTexts == 0 {
		t.Skip("run with -compact 4")
	}
	f := smollm2(t)
	file, err := os.Open(filepath.Join(os.Getenv("RANDFEAT_DATA"), "wikitext2", "wiki.test.tokens.gz"))
	if err != nil {
		t.Skip(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := token.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	ids := tokens.EncodeText(nil, string(text[:min(len(text), 1_200_000)]))
	m, err := decoder.New(f, decoder.Options{Quantised: *compactQuantised})
	if err != nil {
		t.Fatal(err)
	}
	const after = 512
	n := *compactContext
	var sum, window float64
	for i := range *compactTexts {
		at := i * len(ids) / *compactTexts
		part := ids[at : at+n+after]
		start := time.Now()
		s := reading(t, m, part[:n-1], n)
		last := next(t, s, part[n-1])
		read := time.Since(start)
		loss := func(s *decoder.Session) (mean float64) {
			l := make([]float64, after)
			if err := s.Score(l, part[n:], last); err != nil {
				t.Fatal(err)
			}
			for _, x := range l {
				mean += x / after
			}
			return mean
		}
		full, few := s.Fork(), s.Fork()
		before := s.Bytes()
		start = time.Now()
		if err := s.Compact(share(n / 8)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		bytes := s.Bytes()
		if err := decoder.SinksAndWindow(few, n/8); err != nil {
			t.Fatal(err)
		}
		want := loss(full)
		got, base := loss(s)-want, loss(few)-want
		t.Logf("text at %d: perplexity %.2f, compacted × %.4f, sinks and window × %.4f; read in %v, compacted in %v; %d → %d bytes",
			at, math.Exp(want), math.Exp(got), math.Exp(base), read, took, before, bytes)
		sum, window = sum+got/float64(*compactTexts), window+base/float64(*compactTexts)
	}
	t.Logf("geometric mean: compacted × %.4f, sinks and window × %.4f", math.Exp(sum), math.Exp(window))
	if !(sum < window) {
		t.Errorf("perplexity × %v, that of sinks and window × %v", math.Exp(sum), math.Exp(window))
	}
}
