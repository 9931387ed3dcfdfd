package corpus

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// Recording is a sound and its transcript.
type Recording struct {
	Name   string
	Frames dense.Matrix[float32] // one row per frame
	Text   string
	Held   bool // held out
}

// TranscriptsFile lists the recordings of a folder, one JSON object per line: "file", relative to the folder,
// "text", and "held": true if the recording is held out. If none is held out, every tenth is. A .wav file of 16-bit
// samples gives frames of log energies in 32 mel bands, two moments 10 ms apart per row. A .npy file holds frames ×
// features as they are.
const TranscriptsFile = "transcripts.jsonl"

// maxSound is the largest recording in bytes.
const maxSound = 1 << 28

// ReadRecordings reads the recordings of a folder that has a TranscriptsFile.
func ReadRecordings(dir string) ([]Recording, error) {
	list := filepath.Join(dir, TranscriptsFile)
	lines, err := ReadText(list)
	if err != nil {
		return nil, err
	}
	var all []Recording
	n, held := 0, false
	for line := range strings.Lines(lines) {
		n++
		if strings.TrimSpace(line) == "" {
			continue
		}
		var entry struct {
			File, Text string
			Held       bool
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&entry); err != nil {
			return nil, fmt.Errorf("%w: %s:%d: %w", ErrData, list, n, err)
		}
		if !filepath.IsLocal(entry.File) {
			return nil, fmt.Errorf("%w: %s:%d: file %q is not in the folder", ErrData, list, n, entry.File)
		}
		r := Recording{Name: entry.File, Text: entry.Text, Held: entry.Held}
		if r.Frames, err = readFrames(filepath.Join(dir, entry.File)); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", list, n, err)
		}
		all, held = append(all, r), held || r.Held
	}
	for i := range all {
		all[i].Held = all[i].Held || !held && i%10 == 9
	}
	return all, nil
}

// ReadFrames reads the frames of .wav or .npy files, see TranscriptsFile.
func ReadFrames(files ...string) ([]dense.Matrix[float32], error) {
	var all []dense.Matrix[float32]
	for _, file := range files {
		m, err := readFrames(file)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func readFrames(file string) (none dense.Matrix[float32], err error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".npy":
		a, err := npy.ReadFile(file)
		if err != nil {
			return none, err
		}
		if err := a.CheckFinite(); err != nil {
			return none, fmt.Errorf("%s: %w", file, err)
		}
		return a.Float32(), nil
	case ".wav":
		f, err := os.Open(file)
		if err != nil {
			return none, err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxSound+1))
		if err != nil {
			return none, err
		}
		if len(b) > maxSound {
			return none, fmt.Errorf("%w: %s has more than %d bytes", ErrData, file, maxSound)
		}
		m, err := waveFrames(b)
		if err != nil {
			return none, fmt.Errorf("%s: %w", file, err)
		}
		return m, nil
	}
	return none, fmt.Errorf("%w: %s: recordings are .wav or .npy files", ErrData, file)
}

// Digits reads the Free Spoken Digit Dataset from a folder of data sets: English digits by six speakers. As its
// authors suggest, recordings 0–4 of every speaker and digit are held out.
func Digits(dir string) ([]Recording, error) {
	names := []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}
	found, err := filepath.Glob(filepath.Join(dir, "fsdd", "recordings*.tar.gz"))
	if err != nil || len(found) == 0 {
		return nil, errors.Join(fmt.Errorf("%w: no recordings*.tar.gz in %s", ErrData, filepath.Join(dir, "fsdd")), err)
	}
	f, err := os.Open(found[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", found[0], err)
	}
	var all []Recording
	files := tar.NewReader(z)
	for {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", found[0], err)
		}
		name, ok := strings.CutSuffix(path.Base(h.Name), ".wav")
		var digit, index int
		parts := strings.Split(name, "_")
		if !ok || len(parts) != 3 {
			continue
		}
		if _, err := fmt.Sscan(parts[0]+" "+parts[2], &digit, &index); err != nil || digit < 0 || digit > 9 {
			return nil, fmt.Errorf("%w: %s: no digit in %q", ErrData, found[0], h.Name)
		}
		var b bytes.Buffer
		if _, err := io.Copy(&b, io.LimitReader(files, maxSound)); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", found[0], h.Name, err)
		}
		m, err := waveFrames(b.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", found[0], h.Name, err)
		}
		all = append(all, Recording{Name: name, Frames: m, Text: names[digit], Held: index < 5})
	}
	slices.SortFunc(all, func(a, b Recording) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
