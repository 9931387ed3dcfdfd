package token

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Small tokenizers of every kind give the ids that Hugging Face's tokenizers give (peers/tokens.py small).
func TestSmallReference(t *testing.T) {
	folder := "testdata"
	if n := compare(t, folder, 0); n < 6*60 {
		t.Errorf("only %d texts", n)
	}
}

// The tokenizers of real models, on many more texts (peers/tokens.py all).
func TestReference(t *testing.T) {
	folder := os.Getenv("RANDFEAT_TOKENS")
	if folder == "" {
		t.Skip("RANDFEAT_TOKENS names no folder of reference ids (peers/tokens.py)")
	}
	compare(t, folder, 5)
}

// compare holds every tokenizer of a folder against the ids that lie beside it; show bounds the messages.
func compare(t *testing.T, folder string, show int) (texts int) {
	files, err := filepath.Glob(filepath.Join(folder, "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no reference in %s (%v)", folder, err)
	}
	for _, file := range files {
		dir, set := filepath.Dir(file), filepath.Base(file)
		tok, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		all, want := readLines[string](t, filepath.Join(folder, set)), readLines[[]int32](t, file)
		if len(all) != len(want) {
			t.Fatalf("%s: %d texts and %d lists of ids", file, len(all), len(want))
		}
		var got, ids []int32
		bad := 0
		for i, text := range all {
			ids = tok.Encode(ids[:0], text)
			got = tok.Wrap(got[:0], ids, 0)
			if !slices.Equal(got, want[i]) {
				if bad++; show == 0 || bad <= show {
					t.Errorf("%s, %.80q: ids %v, want %v", dir, text, got, want[i])
				}
			}
		}
		texts += len(all)
		if show > 0 {
			t.Logf("%-14s %-12s %7d texts, %d differ", filepath.Base(dir), set, len(all), bad)
		}
	}
	return texts
}

func readLines[T any](t *testing.T, path string) []T {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<24)
	var list []T
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list = append(list, v)
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return list
}
