package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models"
)

// calibrated returns the decoder with the calibration of a file. If none is named and the model at path has none, all
// heads get the same number of keys.
func (e *env) calibrated(d *models.Decoder, file, path string) (*models.Decoder, error) {
	named := file != ""
	if !named {
		file = models.CalibrationPath(path)
	}
	c, err := models.ReadCalibration(file)
	if !named && errors.Is(err, fs.ErrNotExist) {
		e.note("%s is not there: all heads keep the same number of keys. rfm calibrate measures how many each needs", file)
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	w, err := d.With(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (run rfm calibrate %s --text FILE)", file, err, path)
	}
	return w, nil
}

// tokens returns the tokens of text files, one file after the other.
func (e *env) tokens(m *models.Model, paths []string) ([]int32, error) {
	if len(paths) == 0 {
		return nil, misused("--text names no file")
	}
	var ids []int32
	for _, p := range paths {
		text, err := e.readText(p)
		if err != nil {
			return nil, err
		}
		ids = m.Tokens.EncodeText(ids, text)
	}
	return ids, nil
}

// Calibrated is the object that calibrate prints with --json.
type Calibrated struct {
	File    string             `json:"file"`
	Tokens  int                `json:"tokens"`
	Lengths []CalibratedLength `json:"lengths"`
	Seconds float64            `json:"seconds"` // duration of the calibration
}

// CalibratedLength has the expected factors of the perplexity after a text of Tokens tokens.
type CalibratedLength struct {
	Tokens    int     `json:"tokens"`
	Compact8  float64 `json:"compact_8"`
	Compact16 float64 `json:"compact_16"`
}

func calibrateCommand(e *env) *cobra.Command {
	var f modelFlags
	var texts []string
	var out string
	var passages int
	cmd := &cobra.Command{
		Use:   "calibrate MODEL --text FILE…",
		Short: "Measure how many keys every head of a model needs",
		Long: `calibrate reads passages of a text and measures how much every key/value head loses when it keeps few keys. It writes
MODEL.calibration.json beside the model, by which --compact then divides keys among the heads. The model's
files never change. Measure the effect with rfm check, on text that calibrate has not seen.`,
		Example: `  rfm calibrate smollm2.gguf --text book.txt
  rfm check smollm2.gguf --text another.txt --compact 8`,
		Args: suggest.Args("a model", 1, 1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if passages < 1 {
				return misused("--passages is %d, want 1 or more", passages)
			}
			m, err := f.decoder(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			ids, err := e.tokens(m, texts)
			if err != nil {
				return err
			}
			if out == "" {
				out = models.CalibrationPath(f.path)
			}
			start := time.Now()
			a, err := m.Decoder.Calibrate(cmd.Context(), ids, passages, func(n int) { e.note("%d passages", n) })
			if err != nil {
				return err
			}
			if err := a.Save(out); err != nil {
				return err
			}
			r := Calibrated{File: out, Tokens: a.Tokens, Seconds: time.Since(start).Seconds()}
			for n := 1024; n <= m.Decoder.Context(); n *= 2 {
				loss := func(factor float64) float64 { return math.Exp(a.Losses.Compacted(n, float64(n)/factor).Loss) }
				r.Lengths = append(r.Lengths, CalibratedLength{Tokens: n, Compact8: loss(8), Compact16: loss(16)})
			}
			if e.json {
				return e.object(r)
			}
			w := e.stdout
			fmt.Fprintf(w, "%s: %d tokens read in %.0f s. Expected perplexity, relative to all keys:\n", r.File, r.Tokens,
				r.Seconds)
			fmt.Fprintf(w, "%8s  %-12s %s\n", "tokens", "--compact 8", "--compact 16")
			for _, l := range r.Lengths {
				fmt.Fprintf(w, "%8d  %-12.3f %.3f\n", l.Tokens, l.Compact8, l.Compact16)
			}
			return nil
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&texts, "text", nil, "text file to calibrate on; repeatable")
	fl.IntVar(&passages, "passages", 2, "largest number of passages to read, of 2,560 tokens each")
	fl.StringVarP(&out, "output", "o", "", "file to write (default: MODEL.calibration.json)")
	return cmd
}

func checkCommand(e *env) *cobra.Command {
	var f modelFlags
	var texts []string
	var file string
	var window, count int
	var factors []int
	cmd := &cobra.Command{
		Use:   "check MODEL --text FILE…",
		Short: "Measure what compaction costs in accuracy",
		Long: `check measures the perplexity of the 512 tokens after a context of --context tokens, when the context is compacted,
relative to that after the full context. Use text that calibrate has not seen.`,
		Example: `  rfm check smollm2.gguf --text another.txt --compact 8,16 --context 4096 --windows 4`,
		Args:    suggest.Args("a model", 1, 1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			switch {
			case window != 0 && window < 2:
				return misused("--context is %d, want 2 or more", window)
			case count < 1:
				return misused("--windows is %d, want 1 or more", count)
			case len(factors) == 0 || slices.Min(factors) < 2:
				return misused("--compact is %d, want factors of 2 or more", factors)
			}
			m, err := f.decoder(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			ids, err := e.tokens(m, texts)
			if err != nil {
				return err
			}
			d, err := e.calibrated(m.Decoder, file, f.path)
			if err != nil {
				return err
			}
			if window == 0 {
				window = min(2048, d.Context()*3/4)
			}
			list, err := d.CheckCompact(cmd.Context(), ids, window, count, factors)
			for _, c := range list {
				if e.json {
					err = errors.Join(err, e.object(c))
					continue
				}
				fmt.Fprintf(e.stdout, "%d tokens to 1/%d: perplexity of the next %d × %.4f, at most %.4f in %d texts, "+
					"expected %.4f; compacted in %.2f of the time of reading; %.1f tokens/s, full %.1f; %.1f of %.1f MB\n",
					c.Context, c.Factor, c.After, c.Ratio, c.Worst, c.Texts, c.Expected, c.CompactSeconds/c.ReadSeconds,
					c.GenerateFew, c.GenerateFull, float64(c.BytesFew)/1e6, float64(c.BytesFull)/1e6)
			}
			return err
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&texts, "text", nil, "text file to check on; repeatable")
	fl.StringVar(&file, "calibration", "", "`file` of rfm calibrate (default: MODEL.calibration.json if there is one)")
	fl.IntVar(&window, "context", 0, "tokens of a context (default: 2048, or 3/4 of the model's if that is less)")
	fl.IntSliceVar(&factors, "compact", []int{8}, "compact contexts by these factors, such as 8,16")
	fl.IntVar(&count, "windows", 4, "contexts to measure, spread over the text")
	return cmd
}
