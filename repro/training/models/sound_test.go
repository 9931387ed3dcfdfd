package models_test

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
)

// speech is words of one to three letters, of which each has a spectrum of its own, lasts two to four frames and is
// heard through noise.
func speech(n int, seed uint64) []corpus.Utterance {
	const letters, features = 4, 8
	spectra := make([]float64, letters*features)
	rng.Normals(spectra, rng.Stream(1, 's'))
	var all []corpus.Utterance
	src := rng.Stream(seed, 'u')
	for i := range n {
		u := corpus.Utterance{Name: strconv.Itoa(i)}
		u.Frames.Cols, u.Frames.Stride = features, features
		frame := func(of []float64) {
			noise := make([]float64, features)
			rng.Normals(noise, src)
			for j := range noise {
				x := 0.4 * noise[j]
				if of != nil {
					x += 1.5 * of[j]
				}
				u.Frames.Data = append(u.Frames.Data, float32(x))
			}
			u.Frames.Rows++
		}
		frame(nil)
		for range 1 + src.Uint64()%3 {
			l := int(src.Uint64() % letters)
			u.Letters = append(u.Letters, int32(l+1))
			for range 2 + src.Uint64()%3 {
				frame(spectra[l*features:][:features])
			}
			frame(nil)
		}
		all = append(all, u)
	}
	return all
}

// A Conformer learns to spell: most letters of words that it never heard are right, though nobody tells it when each
// begins.
func TestConformerLearns(t *testing.T) {
	source, err := corpus.NewSounds(speech(200, 2), speech(32, 3), 8, 16, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"exact", "oprf:orthogonal:8"} {
		m := models.Config{Kind: models.Conformer, Length: 16, Frame: source.Width(), Layers: 1, Width: 16, Heads: 2,
			Hidden: 32, Classes: 5, Attention: kind}
		c := train.Config{Steps: 40, Warmup: 5, Rate: 2e-2, Floor: 0.1, Clip: 1, Seed: 7}
		r, err := train.New(open(), m, c, source)
		if err != nil {
			t.Fatal(err)
		}
		before, err := r.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		steps(t, r, c.Steps/4)
		transcribes(t, r, m, source)
		steps(t, r, c.Steps-c.Steps/4)
		after, err := r.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		t.Logf("%s: token error rate %.3f, then %.3f; loss %.3f, then %.3f", kind, 1-before.Accuracy, 1-after.Accuracy,
			before.Loss, after.Loss)
		if after.Accuracy < 0.8 || before.Accuracy > 0.3 || after.Count != before.Count {
			t.Errorf("%s: token error rate %.3f, then %.3f", kind, 1-before.Accuracy, 1-after.Accuracy)
		}
	}
}

// transcribes compares a saved model's letters with the accuracy that training sees.
func transcribes(t *testing.T, r *train.Trainer, m models.Config, source *corpus.Sounds) {
	t.Helper()
	e, err := r.Evaluate()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "checkpoint")
	if err := r.Save(file, nil); err != nil {
		t.Fatal(err)
	}
	store, _, err := train.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Finalize()
	var sounds []dense.Matrix[float32]
	held := speech(32, 3)
	for _, u := range held {
		sounds = append(sounds, u.Frames)
	}
	all, err := m.Transcribe(open(), store, sounds...)
	if err != nil {
		t.Fatal(err)
	}
	edits, letters := 0, 0
	for i, heard := range all {
		edits, letters = edits+levenshtein(heard, held[i].Letters), letters+len(held[i].Letters)
	}
	want := (1 - e.Accuracy) * e.Count
	if edits == 0 || letters != int(e.Count) || math.Abs(float64(edits)-want) > 0.5 {
		t.Errorf("%d of %d letters wrong, training says %.1f of %g", edits, letters, want, e.Count)
	}
	if _, err := m.Transcribe(open(), store, dense.New[float32](17, source.Width())); err == nil {
		t.Error("a sound that is too long is heard")
	}
}

// levenshtein is the textbook's distance.
func levenshtein(a, b []int32) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	d := levenshtein(a[1:], b[1:])
	if a[0] != b[0] {
		d++
	}
	return min(d, levenshtein(a[1:], b)+1, levenshtein(a, b[1:])+1)
}
