package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// TestMain is the program itself in the processes that training bench starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "bench" {
		main()
		return
	}
	os.Exit(m.Run())
}

// printed is the output of a command.
func printed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdout
	os.Stdout = w
	failed := run(args)
	os.Stdout = was
	w.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), failed
}

// A table has a row per length and attention, also where one cannot be measured.
func TestBenchStep(t *testing.T) {
	args := []string{"bench", "-backend", "go", "-layers", "1", "-width", "8", "-heads", "2", "-lengths",
		"8,16", "-steps", "1", "-attention", `{"name":"oprf","a":0}:iid:4,exact,nosuch`}
	out, err := printed(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out, "| exact |"); n != 2 || strings.Count(out, "unknown family") != 2 {
		t.Errorf("it prints %s", out)
	}
	if out, err = printed(t, append(args, "-json", "-lengths", "8")...); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(out))
	for i := range 3 {
		var r stepRow
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if r.Length != 8 || (r.Error != "") != (i == 2) || i < 2 && (r.Ms <= 0 || r.Tokens <= 0) {
			t.Errorf("row %+v", r)
		}
	}
}

// A folder of sounds trains a Conformer, which then hears the same files.
func TestTrainConformer(t *testing.T) {
	dir := t.TempDir()
	var list bytes.Buffer
	for i := range 12 {
		m := dense.New[float32](6, 3)
		for f := 1; f < 4; f++ {
			m.Set(f, i%2, 2)
		}
		out, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.npy", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := npy.Write(out, m); err != nil {
			t.Fatal(err)
		}
		out.Close()
		fmt.Fprintf(&list, "{\"file\": \"%d.npy\", \"text\": %q}\n", i, []string{"up", "down"}[i%2])
	}
	if err := os.WriteFile(filepath.Join(dir, "transcripts.jsonl"), list.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "run")
	args := "train -backend go -model conformer -tokens words -layers 1 -width 8 -heads 2 -batch 4 -length 6 -steps 30 -warmup 3 -rate 3e-2"
	if _, err := printed(t, append(strings.Fields(args), "-data", dir, "-out", out)...); err != nil {
		t.Fatal(err)
	}
	heard, err := printed(t, "transcribe", "-backend", "go", "-run", out, filepath.Join(dir, "0.npy"),
		filepath.Join(dir, "1.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(heard, "0.npy\tup\n") || !strings.Contains(heard, "1.npy\tdown\n") {
		t.Errorf("it hears %q", heard)
	}
}
