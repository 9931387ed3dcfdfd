package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/models"
)

// attentionFlags are those of commands that run a decoder.
type attentionFlags struct{ attention, memory string }

func (f *attentionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.attention, "attention", "auto",
		"exact, a file of rfm calibrate, or auto: MODEL.attention.json if there is one, else exact")
	cmd.Flags().StringVar(&f.memory, "memory", "", "slots:N keeps N keys per head, however long the text is (default: all)")
}

// use sets how the heads of a decoder attend.
func (f *attentionFlags) use(m *models.Model, path string) error {
	if f.memory != "" {
		text, ok := strings.CutPrefix(f.memory, "slots:")
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n < 1 || n > 1<<20 {
			return misused("--memory %q: want slots:N, such as slots:512", f.memory)
		}
		if f.attention != "auto" {
			return misused("--memory and --attention exclude each other")
		}
		d, err := m.Decoder.Constant(n)
		if err != nil {
			return misused("--memory %s: %v", f.memory, err)
		}
		m.Decoder = d
		return nil
	}
	file := f.attention
	switch file {
	case "exact":
		return nil
	case "":
		return misused("--attention is empty: want exact, auto or a file")
	case "auto":
		file = models.AttentionPath(path)
	}
	a, err := models.ReadAttention(file)
	if f.attention == "auto" && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var d *models.Decoder
	if err == nil {
		if d, err = m.Decoder.With(a); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	if errors.Is(err, models.ErrAttention) {
		return fmt.Errorf("%w (run rfm calibrate %s --text FILE, or say --attention exact)", err, path)
	}
	if err != nil {
		return err
	}
	m.Decoder = d
	return nil
}

// open opens a decoder with the attention of the flags.
func (f *attentionFlags) open(model *modelFlags, path string) (*models.Model, error) {
	m, err := model.decoder(path)
	if err != nil {
		return nil, err
	}
	if err := f.use(m, path); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// chooses opens a decoder for calibrate and check.
func (f *modelFlags) chooses(path string) (*models.Model, error) {
	m, err := f.open(path)
	if err != nil {
		return nil, err
	}
	if m.Decoder == nil {
		m.Close()
		return nil, fmt.Errorf("%s embeds texts (%s): encoders always attend exactly, there is nothing to calibrate or check",
			path, m.Config().Architecture)
	}
	return m, nil
}

// tokens are those of text files, one after the other.
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

// Calibrated is what calibrate prints with --json.
type Calibrated struct {
	File         string  `json:"file"`
	Tokens       int     `json:"tokens"`
	Length       int     `json:"length"`
	Heads        int     `json:"heads"`
	ExactHeads   int     `json:"exact_heads"`
	ReadShare    float64 `json:"read_share"`    // of the keys that exact attention reads, at Length
	SecondsShare float64 `json:"seconds_share"` // of the seconds of exact attention, predicted
	Seconds      float64 `json:"seconds"`       // that calibration took
}

func calibrateCommand(e *env) *cobra.Command {
	var f modelFlags
	var texts []string
	var out string
	var c models.Calibration
	cmd := &cobra.Command{
		Use:   "calibrate MODEL --text FILE…",
		Short: "Choose the attention of every head of a model that generates",
		Long: `calibrate reads a text with exact attention and chooses for every key/value head: exact attention, or centroids where
these are faster at --context tokens and stay within --tol. It writes MODEL.attention.json beside the model, which
generate, ask, perplexity and serve then use. The model's files never change. Measure the effect with rfm check, on text
that calibrate has not seen. The choice depends on the machine; calibrate on the one that generates.`,
		Example: `  rfm calibrate smollm2.gguf --text book.txt
  rfm check smollm2.gguf --text another.txt`,
		Args: cobra.ExactArgs(1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			switch {
			case !(c.Tol > 0 && c.Tol < 1):
				return misused("--tol is %v, want between 0 and 1", c.Tol)
			case c.Length < 1024:
				return misused("--context is %d, want 1024 or more: below, exact attention is fastest", c.Length)
			case c.Passages < 1:
				return misused("--passages is %d, want 1 or more", c.Passages)
			}
			m, err := f.chooses(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			ids, err := e.tokens(m, texts)
			if err != nil {
				return err
			}
			if out == "" {
				out = models.AttentionPath(args[0])
			}
			start := time.Now()
			c.Done = func(layers int) { e.note("%d of %d layers", layers, m.Config().Layers) }
			a, err := m.Decoder.Calibrate(cmd.Context(), ids, c)
			if err != nil {
				return err
			}
			if err := a.Save(out); err != nil {
				return err
			}
			r := Calibrated{File: out, Tokens: a.Tokens, Length: a.Choice.Length, Heads: len(a.Choice.Heads),
				ExactHeads: a.Exact(), Seconds: time.Since(start).Seconds()}
			r.ReadShare, r.SecondsShare = a.Shares()
			if e.json {
				return e.object(r)
			}
			_, err = fmt.Fprintf(e.stdout, "%s: %d of %d heads by centroids, the others exact. A token after %d others reads "+
				"%.0f %% of the keys and takes %.0f %% of the seconds of exact attention, as predicted. (%d tokens, %.0f s)\n",
				r.File, r.Heads-r.ExactHeads, r.Heads, r.Length, 100*r.ReadShare, 100*r.SecondsShare, r.Tokens,
				r.Seconds)
			return err
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&texts, "text", nil, "text file to calibrate on; may be given again")
	fl.Float64Var(&c.Tol, "tol", 0.1, "largest relative error of a head's output on other text")
	fl.IntVar(&c.Length, "context", 4096, "tokens of a passage: heads are chosen to be fast after so many")
	fl.IntVar(&c.Passages, "passages", 2, "most passages to read")
	fl.Uint64Var(&c.Seed, "seed", 1, "of samples and clusterings")
	fl.StringVarP(&out, "output", "o", "", "file to write (default: MODEL.attention.json)")
	return cmd
}

func checkCommand(e *env) *cobra.Command {
	var f modelFlags
	var texts []string
	var file string
	var window int
	cmd := &cobra.Command{
		Use:   "check MODEL --text FILE…",
		Short: "Compare calibrated attention with exact attention",
		Long: `check prints for every head how it attends, the error that calibration expects and the one on this text; for the model
the perplexity with calibrated and with exact attention, and tokens per second of both by the length of the text. Give
text that calibrate has not seen. Texts longer than eight windows are cut.`,
		Example: `  rfm check smollm2.gguf --text another.txt`,
		Args:    cobra.ExactArgs(1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if window != 0 && window < 2 {
				return misused("--context is %d, want 2 or more", window)
			}
			m, err := f.chooses(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			if file == "" {
				file = models.AttentionPath(args[0])
			}
			a, err := models.ReadAttention(file)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: run rfm calibrate %s --text FILE first", err, args[0])
			}
			if err != nil {
				return err
			}
			ids, err := e.tokens(m, texts)
			if err != nil {
				return err
			}
			c, err := m.Decoder.Check(cmd.Context(), a, ids, window)
			if errors.Is(err, models.ErrAttention) {
				err = fmt.Errorf("%s: %w", file, err)
			}
			if err != nil {
				return err
			}
			if e.json {
				return e.object(c)
			}
			return e.table(c)
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&texts, "text", nil, "text file to check on; may be given again")
	fl.StringVar(&file, "attention", "", "file of rfm calibrate (default: MODEL.attention.json)")
	fl.IntVar(&window, "context", 0, "tokens of a window (default: as calibrated)")
	return cmd
}

// table prints a check for people.
func (e *env) table(c *models.Check) error {
	w := e.stdout
	fmt.Fprintf(w, "%5s %5s  %-8s %6s  %-17s %s\n", "layer", "head", "method", "reads", "expected error", "measured")
	for _, h := range c.Heads {
		expected, measured := "0", "0"
		if h.Method != "exact" {
			expected = fmt.Sprintf("%.3f, to %.3f", h.Expected.Error, h.Expected.High)
			measured = fmt.Sprintf("%.3f", h.Measured)
		}
		fmt.Fprintf(w, "%5d %5d  %-8s %6.0f  %-17s %s\n", h.Layer, h.Head, h.Method, h.Reads, expected, measured)
	}
	fmt.Fprintf(w, "\nperplexity %.4f, exact %.4f: ratio %.4f, over %d tokens in windows of %d\n", c.Chosen, c.Exact,
		c.Ratio, c.Tokens, c.Context)
	if len(c.Speeds) > 0 {
		fmt.Fprintf(w, "\n%8s  %-25s %s\n", "tokens", "read/s: exact, chosen", "generate/s: exact, chosen, ratio")
	}
	for _, s := range c.Speeds {
		fmt.Fprintf(w, "%8d  %-12.0f %-12.0f %.1f %10.1f %10.2f\n", s.Tokens, s.ReadExact, s.ReadChosen,
			s.GenerateExact, s.GenerateChosen, s.GenerateChosen/s.GenerateExact)
	}
	return nil
}
