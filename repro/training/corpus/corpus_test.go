package corpus_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/corpus"
)

func ints(n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(i)
	}
	return x
}

// A window is followed by the same tokens one further on; a batch depends on seed and number alone.
func TestStream(t *testing.T) {
	s, err := corpus.NewStream(ints(1000), ints(100), 3, 8, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.Train(1, 5), s.Train(1, 5)
	x, y := tensors.MustCopyFlatData[int32](a[0]), tensors.MustCopyFlatData[int32](a[1])
	for i := range x {
		if y[i] != x[i]+1 {
			t.Fatalf("%d is followed by %d", x[i], y[i])
		}
	}
	if !slices.Equal(x, tensors.MustCopyFlatData[int32](b[0])) {
		t.Error("the same batch twice differs")
	}
	for _, o := range []train.Batch{s.Train(2, 5), s.Train(1, 6)} {
		if slices.Equal(x, tensors.MustCopyFlatData[int32](o[0])) {
			t.Error("another seed or number gives the same batch")
		}
	}
	if s.Held() != 4 { // 12 windows of 8 in 99 tokens
		t.Errorf("%d held-out batches", s.Held())
	}
	if _, err := corpus.NewStream(ints(8), ints(100), 3, 8, 0); !errors.Is(err, corpus.ErrData) {
		t.Errorf("a text shorter than a window: %v", err)
	}
}

// About 15 % of tokens are to be guessed, most of them hidden; the others are as they were.
func TestMasked(t *testing.T) {
	s, err := corpus.NewMasked(ints(1000), ints(1000), 100, 50, 0, 1000, 1001)
	if err != nil {
		t.Fatal(err)
	}
	batch := s.Train(1, 0)
	plain, _ := corpus.NewStream(ints(1000), ints(1000), 100, 50, 0)
	was := tensors.MustCopyFlatData[int32](plain.Train(1, 0)[0])
	x, y := tensors.MustCopyFlatData[int32](batch[0]), tensors.MustCopyFlatData[int32](batch[1])
	guessed, hidden := 0, 0
	for i := range x {
		switch {
		case y[i] < 0 && x[i] != was[i]:
			t.Fatal("a token that is not to be guessed has changed")
		case y[i] >= 0 && y[i] != was[i]:
			t.Fatal("what is to be guessed is not what was there")
		case y[i] >= 0:
			guessed++
			if x[i] == 1000 {
				hidden++
			}
		}
	}
	// Binomial: 5000 tokens, ±6σ.
	if guessed < 598 || guessed > 902 || hidden < guessed*7/10 || hidden > guessed*9/10 {
		t.Errorf("%d of 5000 to be guessed, %d hidden", guessed, hidden)
	}
}

// Every text is seen once per pass; held-out texts once, the padding of the last batch has no label.
func TestLabelled(t *testing.T) {
	var items []corpus.Item
	for i := range 10 {
		items = append(items, corpus.Item{Tokens: []int32{int32(i), 7}, Label: int32(i % 2)})
	}
	s, err := corpus.NewLabelled(items, items, 4, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int32]int{}
	for i := range 5 { // two passes
		for j, x := range tensors.MustCopyFlatData[int32](s.Train(3, i)[0]) {
			if j%3 == 0 {
				seen[x]++
			}
		}
	}
	for i, n := range seen {
		if n != 2 {
			t.Errorf("text %d is seen %d times in two passes", i, n)
		}
	}
	if s.Held() != 3 {
		t.Fatalf("%d held-out batches", s.Held())
	}
	last := s.HeldOut(2)
	if y := tensors.MustCopyFlatData[int32](last[1]); !slices.Equal(y, []int32{0, 1, -1, -1}) {
		t.Errorf("labels %v", y)
	}
	if v := tensors.MustCopyFlatData[bool](last[2]); !slices.Equal(v[:3], []bool{true, true, false}) {
		t.Errorf("valid %v", v)
	}
	items[3].Label = 2
	_, err = corpus.NewLabelled(items, items, 4, 3, 2)
	if !errors.Is(err, corpus.ErrData) || !strings.Contains(err.Error(), "text 3") {
		t.Errorf("label 2 of 2: %v", err)
	}
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// Images become larger by squares of pixels; files that promise more than they hold are refused.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	pixels := []byte{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 255, 51, 102, 1, 2, 3, 4}
	for _, part := range []string{"train", "t10k"} {
		write(t, filepath.Join(dir, part+"-images-idx3-ubyte.gz"), pixels)
		write(t, filepath.Join(dir, part+"-labels-idx1-ubyte.gz"), []byte{0, 0, 8, 1, 0, 0, 0, 2, 5, 6})
	}
	s, err := corpus.NewImages(dir, 4, 3, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := s.HeldOut(0)
	want := []float32{0, 0, 1, 1, 0, 0, 1, 1, 0.2, 0.2, 0.4, 0.4, 0.2, 0.2, 0.4, 0.4}
	if x := tensors.MustCopyFlatData[float32](b[0]); !slices.Equal(x[:16], want) {
		t.Errorf("pixels %v", x[:16])
	}
	if y := tensors.MustCopyFlatData[int32](b[1]); !slices.Equal(y, []int32{5, 6, -1}) {
		t.Errorf("labels %v", y)
	}
	if s, err = corpus.NewImages(dir, 3, 3, 0, 0); err != nil {
		t.Fatal(err)
	}
	want = []float32{0, 0, 1, 0, 0, 1, 0.2, 0.2, 0.4}
	if x := tensors.MustCopyFlatData[float32](s.HeldOut(0)[0]); !slices.Equal(x[:9], want) {
		t.Errorf("pixels %v", x[:9])
	}
	if _, err := corpus.NewImages(dir, 1, 3, 0, 0); !errors.Is(err, corpus.ErrData) {
		t.Errorf("a side that is too short: %v", err)
	}
	huge := append([]byte{0, 0, 8, 3}, bytes.Repeat([]byte{255}, 12)...)
	for _, bad := range [][]byte{pixels[:20], {0, 0, 9, 3}, huge, nil} {
		write(t, filepath.Join(dir, "train-images-idx3-ubyte.gz"), bad)
		if _, err := corpus.NewImages(dir, 4, 3, 0, 0); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// Training batches show images moved and mirrored in every way that is asked for, by the seed; held-out ones never.
func TestVariedImages(t *testing.T) {
	dir := t.TempDir()
	one := []byte{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 51, 102, 153, 255}
	for _, part := range []string{"train", "t10k"} {
		write(t, filepath.Join(dir, part+"-images-idx3-ubyte.gz"), one)
		write(t, filepath.Join(dir, part+"-labels-idx1-ubyte.gz"), []byte{0, 0, 8, 1, 0, 0, 0, 1, 5})
	}
	s, err := corpus.NewImages(dir, 2, 1, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Shift, s.Flip = 1, true
	seen := map[[4]float32]bool{}
	for i := range 400 {
		x := tensors.MustCopyFlatData[float32](s.Train(1, i)[0])
		seen[[4]float32(x)] = true
		if again := tensors.MustCopyFlatData[float32](s.Train(1, i)[0]); !slices.Equal(x, again) {
			t.Fatalf("batch %d is %v, then %v", i, x, again)
		}
	}
	for _, want := range [][4]float32{{0.2, 0.4, 0.6, 1}, {0.4, 0.2, 1, 0.6}, {0, 0, 0.2, 0.4}, {0, 0.2, 0, 0.6},
		{0.4, 0, 1, 0}, {0.6, 1, 0, 0}, {0, 0, 0, 0.2}, {0, 0.4, 0, 1}} {
		if !seen[want] {
			t.Errorf("never shown as %v", want)
		}
	}
	if len(seen) != 18 {
		t.Errorf("%d views, want 9 places, mirrored or not", len(seen))
	}
	s.Shift, s.Flip, s.Erase = 0, false, 1
	clear(seen)
	for i := range 400 {
		seen[[4]float32(tensors.MustCopyFlatData[float32](s.Train(1, i)[0]))] = true
	}
	for _, want := range [][4]float32{{0.2, 0.4, 0.6, 1}, {0, 0.4, 0.6, 1}, {0.2, 0, 0.6, 1}, {0.2, 0.4, 0, 1},
		{0.2, 0.4, 0.6, 0}} {
		if !seen[want] {
			t.Errorf("never shown as %v", want)
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d views, want the whole image and 4 black pixels", len(seen))
	}
	if x := tensors.MustCopyFlatData[float32](s.HeldOut(0)[0]); !slices.Equal(x, []float32{0.2, 0.4, 0.6, 1}) {
		t.Errorf("held out: %v", x)
	}
}

func TestTexts(t *testing.T) {
	if _, _, err := corpus.Texts(t.TempDir(), "nosuch"); !errors.Is(err, corpus.ErrData) {
		t.Errorf("unknown text: %v", err)
	}
	a, b := corpus.Split("one\ntwo\nthree\nfour\nfive\n")
	if a+b != "one\ntwo\nthree\nfour\nfive\n" || b != "" && !strings.HasSuffix(a, "\n") {
		t.Errorf("%q, %q", a, b)
	}
}
