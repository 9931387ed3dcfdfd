package lab_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/repro/training/lab"
)

// A tiny decoder is fine-tuned in every regime, and regimes train only their parameters: M stays the identity with
// Performer.
func TestLanguage(t *testing.T) {
	b, _, err := backend.Open("go")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	dir, data := t.TempDir(), t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		x, err := os.ReadFile(filepath.Join("../../../gomlx/pretrained/testdata/llama", name))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name), x)
	}
	vocab := map[string]int{}
	for i, c := range []string{"o", "n", "e", "t", "w", ",", "3", "4", "Ġ", "Ċ"} {
		vocab[c] = i
	}
	bytesOnly := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
	putJSON(t, filepath.Join(dir, "tokenizer.json"), map[string]any{"version": "1.0", "pre_tokenizer": bytesOnly,
		"decoder": map[string]any{"type": "ByteLevel"},
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
	putJSON(t, filepath.Join(dir, "tokenizer_config.json"),
		map[string]string{"tokenizer_class": "PreTrainedTokenizerFast"})
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	if _, err := z.Write([]byte(strings.Repeat("one two, ten 43 went on\n", 40))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"wiki.valid.tokens.gz", "wiki.test.tokens.gz"} {
		put(t, filepath.Join(data, "wikitext2", name), text.Bytes())
	}
	var rows, out bytes.Buffer
	l := &lab.Lab{Backend: b, Data: data, Size: lab.Quick, Out: &rows, Seeds: 2}
	if err := l.Language(dir); err != nil {
		t.Fatal(err)
	}
	loss := map[string]float64{} // after the last step of seed 1
	n := 0
	for line := range strings.Lines(rows.String()) {
		var r lab.Row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if n++; r.Seed == 1 {
			loss[r.Part+" "+r.Method] = r.Loss
		}
	}
	// Exact and Performer in two regimes, DARK in three; evaluated after steps 1 and 2.
	if n != 2*2*(2+2+3) {
		t.Errorf("%d rows:\n%s", n, rows.String())
	}
	if loss["full performer"] == loss["full dark"] || loss["partial dark"] == loss["M only dark"] ||
		loss["full exact"] == loss["full performer"] {
		t.Errorf("methods or regimes that do the same: %v", loss)
	}
	if err := lab.Tables(&out, &rows); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"published decoder", "fine-tuning, partial", "fine-tuning, M only",
		"Fig 4: DARK above"} {
		if !strings.Contains(out.String(), w) {
			t.Errorf("the tables do not say %q:\n%s", w, out.String())
		}
	}
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

func putJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, b)
}
