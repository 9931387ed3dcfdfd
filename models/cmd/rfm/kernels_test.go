package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/models/internal/tiny"
)

// childModel names the model of the process that TestEmbedWithEveryKernel starts.
const childModel = "RFM_TEST_MODEL"

// TestEmbedChild is no test: it is rfm embed in a process with kernels of its own.
func TestEmbedChild(t *testing.T) {
	model := os.Getenv(childModel)
	if model == "" {
		t.Skip("only as a child of another test")
	}
	os.Exit(run(context.Background(), os.Stdin, os.Stdout, os.Stderr, []string{"embed", model}))
}

// Embeddings of all tables of kernels that the machine has, plain Go included, differ by rounding only: vectors have
// length 1.
func TestEmbedWithEveryKernel(t *testing.T) {
	const tolerance = 1e-4
	model := tiny.Folder(t, "bert")
	var want [][]float32
	for _, tab := range kern.Available[float32]() {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEmbedChild$")
		cmd.Env = append(os.Environ(), "RANDFEAT_KERNEL="+tab.Name, childModel+"="+model)
		cmd.Stdin = strings.NewReader("one text\nanother, longer text of several words\n")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", tab.Name, err, &stderr)
		}
		var got [][]float32
		for line := range strings.Lines(stdout.String()) {
			var e Embedding
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Embedding)
		}
		if want == nil {
			want = got
		}
		if len(got) != 2 || len(got[0]) == 0 {
			t.Fatalf("%s: %d embeddings of %d numbers", tab.Name, len(got), len(got[0]))
		}
		for i := range got {
			for j, v := range got[i] {
				if d := math.Abs(float64(v - want[i][j])); !(d <= tolerance) {
					t.Fatalf("%s: text %d, number %d is %v, want %v", tab.Name, i, j, v, want[i][j])
				}
			}
		}
	}
}
