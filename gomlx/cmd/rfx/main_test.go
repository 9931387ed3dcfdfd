package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

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

// Misspelled commands and flags are answered with the nearest name.
func TestSuggestions(t *testing.T) {
	for args, want := range map[string]string{
		"finetun":              `unknown command "finetun", did you mean finetune?`,
		"elephant":             `unknown command "elephant", rfx help lists the commands`,
		"bench -lenghts 8":     "unknown flag -lenghts, did you mean -lengths?",
		"convert dir -famly x": "unknown flag -famly, did you mean -family?",
	} {
		if _, err := printed(t, strings.Fields(args)...); err == nil || err.Error() != want {
			t.Errorf("rfx %s: %v, want %s", args, err, want)
		}
	}
	if out, err := printed(t, "help"); err != nil || !strings.Contains(out, "rfx finetune") {
		t.Errorf("help: %v, %s", err, out)
	}
}

// Every command that computes says what precisions there are, before it does anything.
func TestProductsFlag(t *testing.T) {
	_, err := printed(t, "bench", "-backend", "go", "-products", "half")
	if err == nil || !strings.Contains(err.Error(), "want float32 or tf32") {
		t.Errorf("error %v", err)
	}
	if _, err := printed(t, "bench", "-backend", "xla:cuda,tf32=false", "-products", "tf32"); err == nil ||
		!strings.Contains(err.Error(), "contradicts") {
		t.Errorf("error %v", err)
	}
}

// tune refuses values that it would take for others, before it looks for a GPU.
func TestTuneRefusesUnknownValues(t *testing.T) {
	for args, want := range map[string]string{
		"tune -dtypes float64": `-dtypes: "float64" is neither float32 nor bfloat16`,
		"tune -causal yes":     `-causal: "yes" is neither false nor true`,
	} {
		if _, err := printed(t, strings.Fields(args)...); err == nil || err.Error() != want {
			t.Errorf("rfx %s: %v, want %s", args, err, want)
		}
	}
}
