package corpus_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/repro/training/corpus"
)

// spoken is a recording of so many frames: its number, and the frame's.
func spoken(number float32, frames int, letters ...int32) corpus.Utterance {
	m := dense.New[float32](frames, 2)
	for i := range frames {
		m.Set(i, 0, number)
		m.Set(i, 1, float32(i))
	}
	return corpus.Utterance{Name: fmt.Sprint(number), Frames: m, Letters: letters}
}

// Rows hold recordings one after the other, with their frames; every held-out recording once; the rest is not valid.
func TestSounds(t *testing.T) {
	items := []corpus.Utterance{spoken(1, 3, 1), spoken(2, 4, 2, 3), spoken(3, 5, 4, 4)}
	s, err := corpus.NewSounds(items, items, 2, 9, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.Held() != 1 || s.Items() != 18 || s.Width() != 2 {
		t.Errorf("%d batches of %d frames of %d", s.Held(), s.Items(), s.Width())
	}
	letters := map[float32][]int32{}
	for _, u := range items {
		letters[u.Frames.Data[0]] = u.Letters
	}
	joined := 0
	for i := range 20 {
		batch := s.Train(1, i)
		if i == 0 {
			batch = s.HeldOut(0)
		}
		x, y := tensors.MustCopyFlatData[float32](batch[0]), tensors.MustCopyFlatData[int32](batch[1])
		valid := tensors.MustCopyFlatData[bool](batch[2])
		for r := range 2 {
			var want []int32
			n := 0
			for f := range 9 {
				number, at := x[(r*9+f)*2], x[(r*9+f)*2+1]
				if on := valid[r*9+f]; on != (number != 0) || on && f > 0 && !valid[r*9+f-1] {
					t.Fatalf("batch %d, row %d: valid frames %v of %v", i, r, valid[r*9:][:9], x[r*18:][:18])
				}
				if number != 0 && at == 0 {
					want = append(want, letters[number]...)
					n++
				}
			}
			joined = max(joined, n)
			for len(want) < 4 {
				want = append(want, -1)
			}
			if got := y[r*4:][:4]; !slices.Equal(got, want) {
				t.Errorf("batch %d, row %d: letters %v, want %v", i, r, got, want)
			}
		}
	}
	if joined != 2 {
		t.Errorf("%d recordings in a row", joined)
	}
	a, b := s.Train(1, 5), s.Train(1, 5)
	if !slices.Equal(tensors.MustCopyFlatData[float32](a[0]), tensors.MustCopyFlatData[float32](b[0])) {
		t.Error("the same batch twice differs")
	}
	for word, u := range map[string]corpus.Utterance{"too few": spoken(9, 2, 4, 4), "nothing": spoken(9, 2),
		"a row has 9": spoken(9, 10, 1), "letter 0": spoken(9, 3, 0)} {
		_, err := corpus.NewSounds(items, append(slices.Clone(items), u), 2, 9, 1, 0)
		if !errors.Is(err, corpus.ErrData) || !strings.Contains(err.Error(), word) ||
			!strings.Contains(err.Error(), "recording 9") {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// tone is a WAV file of a sine, with channels.
func tone(hertz float64, rate, samples, channels int) []byte {
	var b bytes.Buffer
	put := func(x ...any) {
		for _, v := range x {
			binary.Write(&b, binary.LittleEndian, v)
		}
	}
	size := uint32(2 * samples * channels)
	put([]byte("RIFF"), size+44, []byte("WAVE"), []byte("LIST"), uint32(3), []byte("abc\x00"), []byte("fmt "),
		uint32(16), uint16(1), uint16(channels), uint32(rate), uint32(rate*2*channels), uint16(2*channels), uint16(16),
		[]byte("data"), size)
	for i := range samples {
		v := int16(12000 * math.Sin(2*math.Pi*hertz*float64(i)/float64(rate)))
		for range channels {
			put(v)
		}
	}
	return b.Bytes()
}

// chirp is a low tone, then a high one.
func chirp() []byte {
	low, high := tone(300, 8000, 2000, 1), tone(2500, 8000, 2000, 1)
	b := append(slices.Clone(low), high[len(high)-4000:]...)
	binary.LittleEndian.PutUint32(b[len(low)-4004:], 8000)
	return b
}

// A folder is read in both formats; a tone is in its band; errors name the line.
func TestReadRecordings(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := npy.Write(&file, dense.New[float32](7, 64)); err != nil {
		t.Fatal(err)
	}
	write("a.npy", file.Bytes())
	write("b.wav", chirp())
	write(corpus.TranscriptsFile, []byte(`{"file": "a.npy", "text": "nothing"}
{"file": "b.wav", "text": "up", "held": true}
`))
	all, err := corpus.ReadRecordings(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Frames.Rows != 7 || all[1].Text != "up" || !all[1].Held || all[0].Held {
		t.Fatalf("%+v", all)
	}
	// (4000 − 200)/80 + 1 = 48 moments, two in a row; 300 Hz is 402 mel of 2146, band 5 of 32, 2500 Hz 1711, band 25.
	x := all[1].Frames
	if x.Rows != 24 || x.Cols != 64 {
		t.Fatalf("%d×%d frames", x.Rows, x.Cols)
	}
	if x.At(2, 5) < 0.5 || x.At(20, 5) > -0.5 || x.At(2, 25) > -0.5 || x.At(20, 25) < 0.5 {
		t.Errorf("bands 5 and 25: %g %g early, %g %g late", x.At(2, 5), x.At(2, 25), x.At(20, 5), x.At(20, 25))
	}
	for line, word := range map[string]string{
		`{"file": "../a.npy", "text": "x"}`: "folder", `{"file": "c.wav", "text": "x"}`: "c.wav",
		`{"file": "a.mp3", "text": "x"}`: ".wav or .npy", `{"sound": "a.npy"}`: "sound", `{"file"`: "EOF",
	} {
		write(corpus.TranscriptsFile, []byte("\n"+line+"\n"))
		_, err := corpus.ReadRecordings(dir)
		if err == nil || !strings.Contains(err.Error(), ":2: ") || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// FuzzWave reads anything without harm.
func FuzzWave(f *testing.F) {
	f.Add(tone(440, 16000, 500, 2))
	f.Add(tone(440, 8000, 100, 1)) // shorter than a window
	f.Add(tone(440, 8000, 500, 1)[:60])
	dir := f.TempDir()
	list := []byte(`{"file": "a.wav", "text": "x"}`)
	if err := os.WriteFile(filepath.Join(dir, corpus.TranscriptsFile), list, 0o666); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, "a.wav"), b, 0o666); err != nil {
			t.Fatal(err)
		}
		all, err := corpus.ReadRecordings(dir)
		if err != nil && !errors.Is(err, corpus.ErrData) {
			t.Fatal(err)
		}
		if err == nil && all[0].Frames.CheckFinite() != nil {
			t.Errorf("frames that are not finite")
		}
	})
}

// Names of files say which digit is spoken and what is held out.
func TestDigits(t *testing.T) {
	dir := t.TempDir()
	if _, err := corpus.Digits(dir); !errors.Is(err, corpus.ErrData) {
		t.Errorf("no files: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "fsdd"), 0o777); err != nil {
		t.Fatal(err)
	}
	pack := func(names ...string) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, name := range names {
			body := tone(500, 8000, 400, 1)
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o666, Size: int64(len(body))}); err != nil {
				t.Fatal(err)
			}
			w.Write(body)
		}
		w.Close()
		z.Close()
		if err := os.WriteFile(filepath.Join(dir, "fsdd", "recordings_0.tar.gz"), b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	pack("recordings/7_ann_5.wav", "recordings/0_bob_4.wav")
	all, err := corpus.Digits(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Text != "zero" || !all[0].Held || all[1].Text != "seven" || all[1].Held {
		t.Errorf("%+v", all)
	}
	pack("recordings/x_ann_5.wav")
	if _, err := corpus.Digits(dir); !errors.Is(err, corpus.ErrData) || !strings.Contains(err.Error(), "x_ann_5") {
		t.Errorf("no digit: %v", err)
	}
}
