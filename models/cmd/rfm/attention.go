package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models"
)

// attentionFlags are the flags of commands that run a decoder.
type attentionFlags struct{ attention, memory string }

func (f *attentionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.attention, "attention", "auto",
		"exact, a file of rfm calibrate, or auto: MODEL.attention.json if there is one, else exact")
	cmd.Flags().StringVar(&f.memory, "memory", "",
		"slots:N keeps N keys per head on average, however long the text is (default: all)")
}

// use replaces the decoder of m by one that attends as the flags say.
func (f *attentionFlags) use(m *models.Model, path string) error {
	keys := 0
	if f.memory != "" {
		text, ok := strings.CutPrefix(f.memory, "slots:")
		var err error
		if keys, err = strconv.Atoi(text); !ok || err != nil || keys < 1 || keys > 1<<20 {
			return misused("--memory %q: want slots:N, such as slots:512", f.memory)
		}
		if f.attention == "exact" {
			return misused("--memory and --attention exact exclude each other")
		}
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
	d, err := calibrated(m.Decoder, file)
	if f.attention == "auto" && errors.Is(err, fs.ErrNotExist) {
		d, err = m.Decoder, nil
	}
	if errors.Is(err, models.ErrAttention) {
		return fmt.Errorf("%w (run rfm calibrate %s --text FILE, or say --attention exact)", err, path)
	}
	if err != nil {
		return err
	}
	if keys > 0 {
		if d, err = d.Constant(keys); err != nil {
			return misused("--memory %s: %v", f.memory, err)
		}
	}
	m.Decoder = d
	return nil
}

// calibrated returns the decoder with the attention of a file.
func calibrated(d *models.Decoder, file string) (*models.Decoder, error) {
	a, err := models.ReadAttention(file)
	if err != nil {
		return nil, err
	}
	w, err := d.With(a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return w, nil
}

// open opens a decoder with the attention that the flags ask for.
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
	File       string `json:"file"`
	Tokens     int    `json:"tokens"`
	Length     int    `json:"length"`
	Heads      int    `json:"heads"`
	ExactHeads int    `json:"exact_heads"`
	// Lengths has predictions for tokens generated after texts of several lengths.
	Lengths []CalibratedLength `json:"lengths"`
	Seconds float64            `json:"seconds"` // duration of the calibration
}

// CalibratedLength is the prediction for tokens that are generated after Tokens tokens.
type CalibratedLength struct {
	Tokens       int     `json:"tokens"`
	Centroids    int     `json:"centroids"`     // heads that use centroids
	ReadShare    float64 `json:"read_share"`    // keys and centroids read, as a share of exact attention
	SecondsShare float64 `json:"seconds_share"` // time in attention, as a share of exact attention
	Compact8     float64 `json:"compact_8"`     // factor of the perplexity after Compact by 8
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
that calibrate has not seen. The choice depends on the machine; calibrate on the one that generates.

Models that embed read short passages, where exact attention is faster, and always use it.`,
		Example: `  rfm calibrate smollm2.gguf --text book.txt
  rfm check smollm2.gguf --text another.txt`,
		Args: suggest.Args("a model", 1, 1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			switch {
			case !(c.Tol > 0 && c.Tol < 1):
				return misused("--tol is %v, want between 0 and 1", c.Tol)
			case c.Length < 1024:
				return misused("--context is %d, want 1024 or more: below, exact attention is fastest", c.Length)
			case c.Passages < 1:
				return misused("--passages is %d, want 1 or more", c.Passages)
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
			for n := 1024; n <= m.Decoder.Context(); n *= 2 {
				l := CalibratedLength{Tokens: n, Centroids: a.Centroids(n),
					Compact8: math.Exp(a.Budgets.Compacted(n, float64(n)/8).Loss)}
				l.ReadShare, l.SecondsShare = a.Shares(n)
				r.Lengths = append(r.Lengths, l)
			}
			if e.json {
				return e.object(r)
			}
			w := e.stdout
			fmt.Fprintf(w, "%s: %d tokens read in %.0f s. Predictions by the length of the text before:\n", r.File,
				r.Tokens, r.Seconds)
			fmt.Fprintf(w, "%8s  %-22s %-12s %-16s %s\n", "tokens", "heads by centroids", "keys read", "attention time",
				"perplexity with --compact 8")
			for _, l := range r.Lengths {
				fmt.Fprintf(w, "%8d  %3d of %-15d %-12s %-16s × %.3f\n", l.Tokens, l.Centroids, r.Heads,
					fmt.Sprintf("%.0f %%", 100*l.ReadShare), fmt.Sprintf("%.0f %%", 100*l.SecondsShare), l.Compact8)
			}
			return nil
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&texts, "text", nil, "text file to calibrate on; repeatable")
	fl.Float64Var(&c.Tol, "tol", 0.1, "largest relative error of a head's output on other text")
	fl.IntVar(&c.Length, "context", 4096, "tokens of a passage, after which the chosen heads are to be fast")
	fl.BoolVar(&c.Exact, "exact", false,
		"keep exact attention in all heads: only measure the budgets of --compact and --memory")
	fl.IntVar(&c.Passages, "passages", 2, "largest number of passages to read")
	fl.Uint64Var(&c.Seed, "seed", 1, "seed of samples and clusterings")
	fl.StringVarP(&out, "output", "o", "", "file to write (default: MODEL.attention.json)")
	return cmd
}

func checkCommand(e *env) *cobra.Command {
	var f modelFlags
	var k checkFlags
	cmd := &cobra.Command{
		Use:   "check MODEL --text FILE…",
		Short: "Compare calibrated attention with exact attention",
		Long: `check compares calibrated with exact attention, on text that calibrate has not seen. It prints

- for every head the method, the error that calibrate expected and the error on this text;
- for the model the perplexity and, by the length of the text, the tokens per second, with either attention.

It reads at most eight windows of the text. Three flags measure smaller memories instead, after --context tokens:

  --compact 8   perplexity of the next 512 tokens when the context is compacted to an eighth, relative to the full one
  --needles     share of the digits found of codes hidden in the context; with --compact also when it is compacted
  --memory 512  perplexity when every head keeps 512 keys on average`,
		Example: `  rfm check smollm2.gguf --text another.txt
  rfm check smollm2.gguf --text another.txt --compact 8,16 --context 4096 --windows 4
  rfm check smollm2.gguf --text another.txt --needles --compact 8 --context 2048`,
		Args: suggest.Args("a model", 1, 1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if err := k.validate(); err != nil {
				return err
			}
			m, err := f.decoder(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			ids, err := e.tokens(m, k.texts)
			if err != nil {
				return err
			}
			return k.run(cmd.Context(), e, m, args[0], ids)
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&k.texts, "text", nil, "text file to check on; repeatable")
	fl.StringVar(&k.file, "attention", "", "file of rfm calibrate (default: MODEL.attention.json)")
	fl.IntVar(&k.window, "context", 0, "tokens of a window or a context (default: as calibrated)")
	fl.IntSliceVar(&k.factors, "compact", nil, "compact contexts by these factors, such as 8,16")
	fl.BoolVar(&k.needles, "needles", false, "ask for codes hidden in the context, in full and with --compact")
	fl.IntVar(&k.memory, "memory", 0, "measure a constant memory of this many keys per head on average")
	fl.IntVar(&k.count, "windows", 4, "contexts to measure with --compact or --needles, spread over the text")
	return cmd
}

type checkFlags struct {
	texts         []string
	file          string
	window, count int
	memory        int
	factors       []int
	needles       bool
}

func (k *checkFlags) validate() error {
	switch {
	case k.window != 0 && k.window < 2:
		return misused("--context is %d, want 2 or more", k.window)
	case k.count < 1:
		return misused("--windows is %d, want 1 or more", k.count)
	case k.memory < 0:
		return misused("--memory is %d, want 1 or more", k.memory)
	}
	for _, n := range k.factors {
		if n < 2 {
			return misused("--compact has %d, want factors of 2 or more", n)
		}
	}
	return nil
}

func (k *checkFlags) run(ctx context.Context, e *env, m *models.Model, path string, ids []int32) error {
	file := k.file
	if file == "" {
		file = models.AttentionPath(path)
	}
	if k.needles || k.memory > 0 || len(k.factors) > 0 {
		return k.memories(ctx, e, m, file, ids)
	}
	a, err := models.ReadAttention(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: run rfm calibrate %s --text FILE first", err, path)
	}
	if err != nil {
		return err
	}
	c, err := m.Decoder.Check(ctx, a, ids, k.window)
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
}

// memories compares smaller memories with the full one. Without a file of calibrate all heads get the same budget.
func (k *checkFlags) memories(ctx context.Context, e *env, m *models.Model, file string, ids []int32) error {
	d, err := calibrated(m.Decoder, file)
	if k.file == "" && errors.Is(err, fs.ErrNotExist) {
		d, err = m.Decoder, nil
		e.note("%s is not there: all heads have the same budget", file)
	}
	if err != nil {
		return err
	}
	n := k.window
	if n == 0 {
		n = min(2048, d.Context()*3/4)
	}
	w := e.stdout
	if k.needles {
		list, err := d.CheckNeedles(ctx, ids, n, k.count, k.factors)
		if err != nil {
			return err
		}
		for _, r := range list {
			if e.json {
				err = e.object(r)
			} else {
				_, err = fmt.Fprintf(w, "needles in %d tokens, 1/%d of the keys: %.3f of the digits, %d of %d codes\n",
					r.Context, r.Factor, r.Digits, r.Right, r.Codes)
			}
			if err != nil {
				return err
			}
		}
	} else if len(k.factors) > 0 {
		list, err := d.CheckCompact(ctx, ids, n, k.count, k.factors)
		if err != nil {
			return err
		}
		for _, c := range list {
			if e.json {
				err = e.object(c)
			} else {
				_, err = fmt.Fprintf(w, "%d tokens to 1/%d: perplexity of the next %d × %.4f, at most %.4f in %d texts, "+
					"expected %.4f; compacted in %.2f of the time of reading; "+
					"%.1f tokens/s, full %.1f; %.1f of %.1f MB\n",
					c.Context, c.Factor, c.After, c.Ratio, c.Worst, c.Texts, c.Expected, c.CompactSeconds/c.ReadSeconds,
					c.GenerateFew, c.GenerateFull, float64(c.BytesFew)/1e6, float64(c.BytesFull)/1e6)
			}
			if err != nil {
				return err
			}
		}
	}
	if k.memory == 0 {
		return nil
	}
	c, err := d.CheckConstant(ctx, ids, n, k.memory)
	if err != nil {
		return err
	}
	if e.json {
		return e.object(c)
	}
	_, err = fmt.Fprintf(w, "%d keys per head: perplexity %.4f, exact %.4f: ratio %.4f, over %d tokens in windows of %d; "+
		"%.1f MB\n", c.Keys, c.Chosen, c.Exact, c.Ratio, c.Tokens, c.Context, float64(c.Bytes)/1e6)
	return err
}

// heads prints the heads of a check as a table.
func (e *env) heads(list []models.HeadCheck) {
	w := e.stdout
	fmt.Fprintf(w, "%5s %5s  %-8s %6s  %-17s %s\n", "layer", "head", "method", "reads", "expected error", "measured")
	for _, h := range list {
		expected, measured := "0", "0"
		if h.Method != "exact" {
			expected = fmt.Sprintf("%.3f, to %.3f", h.Expected.Error, h.Expected.High)
			measured = fmt.Sprintf("%.3f", h.Measured)
		}
		fmt.Fprintf(w, "%5d %5d  %-8s %6.0f  %-17s %s\n", h.Layer, h.Head, h.Method, h.Reads, expected, measured)
	}
}

// table prints a check as text.
func (e *env) table(c *models.Check) error {
	w := e.stdout
	e.heads(c.Heads)
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
