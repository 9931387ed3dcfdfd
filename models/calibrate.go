package models

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/models/decoder"
)

// ErrCalibration means that a file holds no calibration of this model.
var ErrCalibration = errors.New("not a usable calibration")

const (
	calibrationFormat  = "randfeat model calibration"
	calibrationVersion = 1
	maxCalibration     = 1 << 26 // the largest file that is read, in bytes
)

// Calibration holds what the heads of one decoder lose when they remember a text in few slots. [Decoder.Calibrate]
// measures it and [Decoder.With] uses it.
type Calibration struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Model is a hash of the model's files. The precision does not matter: heads lose about the same in each.
	Model  string          `json:"model"`
	Tokens int             `json:"tokens"` // of the text that was read
	Losses *decoder.Curves `json:"losses"`
}

// CalibrationPath returns the conventional place of a model's calibration: a file beside the model.
func CalibrationPath(model string) string { return filepath.Clean(model) + ".calibration.json" }

const (
	// A passage has calibrateContext tokens that are shrunk and calibrateAfter tokens on which the loss is measured.
	calibrateContext, calibrateAfter = 2048, 512
	// leastPassage is the shortest passage: in a shorter one there is nothing to shrink.
	leastPassage = 1024
)

// Calibrate measures on up to passages passages of a text how much every key/value head loses with few slots. done,
// if not nil, is called with the number of passages so far.
func (d *Decoder) Calibrate(ctx context.Context, ids []int32, passages int, done func(passages int)) (*Calibration,
	error) {
	c := d.model.Config()
	n := min(calibrateContext+calibrateAfter, c.MaxPositions, len(ids))
	switch {
	case passages < 1:
		return nil, fmt.Errorf("%d passages, want at least 1", passages)
	case c.SlidingWindow > 0:
		return nil, fmt.Errorf("the model attends to a window of %d tokens: there is nothing to shrink", c.SlidingWindow)
	case c.MaxPositions < leastPassage:
		return nil, fmt.Errorf("the model's context has %d tokens, calibration needs at least %d", c.MaxPositions,
			leastPassage)
	case n < leastPassage:
		return nil, fmt.Errorf("the text has %d tokens, calibration needs at least %d: give more text", n, leastPassage)
	}
	var texts [][]int32
	for rest := ids; len(rest) >= n && len(texts) < passages; rest = rest[n:] {
		texts = append(texts, rest[:n])
	}
	files := d.files()
	a := &Calibration{Format: calibrationFormat, Version: calibrationVersion, Model: hex.EncodeToString(files[:]),
		Tokens: n * len(texts)}
	var err error
	a.Losses, err = d.model.Curves(ctx, texts, calibrateAfter, done)
	return a, err
}

// Save writes a to a file atomically: readers see the old file or the complete new one.
func (a *Calibration) Save(path string) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := localfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return f.Commit()
}

// ReadCalibration reads a file written by [Calibration.Save].
func ReadCalibration(path string) (*Calibration, error) {
	b, err := localfile.Read(path, localfile.JSON("a calibration of a model", maxCalibration))
	if err != nil {
		return nil, err
	}
	a, err := parseCalibration(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrCalibration, err)
	}
	return a, nil
}

func parseCalibration(b []byte) (*Calibration, error) {
	a := new(Calibration)
	if err := namedjson.Decode(b, a); err != nil {
		return nil, err
	}
	if a.Format != calibrationFormat || a.Version != calibrationVersion {
		return nil, fmt.Errorf("format %q, version %d, want %q, version %d", a.Format, a.Version, calibrationFormat,
			calibrationVersion)
	}
	if a.Losses == nil {
		return nil, errors.New("no losses")
	}
	return a, nil
}

// With returns a decoder that divides the slots of [Session.Compact] among the heads by a.
func (d *Decoder) With(a *Calibration) (*Decoder, error) {
	if files := d.files(); a.Model != hex.EncodeToString(files[:]) {
		return nil, fmt.Errorf("the calibration is of another model: %w", ErrCalibration)
	}
	c := d.model.Config()
	if err := a.Losses.Check(c.Layers, c.KVHeads); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCalibration, err)
	}
	w := *d
	w.curves = a.Losses
	return &w, nil
}
