package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"golang.org/x/term"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
	"github.com/randfeat/randfeat/repro/training/text"
)

type trainFlags struct {
	backend.Flags
	out, from          string
	data, dir          string
	tokens, devices    string
	samples, join      int
	sampler            string
	features           int
	vocab, batch, held int
	model              models.Config
	config             train.Config
	run                train.Run
}

func (f *trainFlags) set(flags *flag.FlagSet) {
	m, c := &f.model, &f.config
	f.Flags.Set(flags)
	flags.StringVar(&f.out, "out", "", "folder of the run: checkpoint, metrics and a page with curves; an interrupted run continues from it")
	flags.StringVar(&f.from, "from", "", "folder of a run to start from (fine-tuning)")
	flags.StringVar(&f.data, "data", "tinyshakespeare", "ptb, wikitext2, tinyshakespeare or a text file; CoLA, SST2, MRPC, RTE; mnist, fashion_mnist; fsdd or a folder with "+corpus.TranscriptsFile)
	flags.StringVar(&f.dir, "data-dir", os.Getenv("RANDFEAT_DATA"), "folder of the data sets")
	flags.StringVar(&f.tokens, "tokens", "chars", "tokens of a text or transcript: chars, words or bpe")
	flags.IntVar(&f.vocab, "vocab", 0, "largest number of tokens; 0: all chars, 10000 words, 2000 pieces")
	flags.IntVar(&f.batch, "batch", 16, "sequences or images per batch")
	flags.IntVar(&f.held, "held-batches", 20, "largest number of held-out batches per evaluation; 0: all")
	flags.StringVar((*string)(&m.Kind), "model", string(models.Decoder),
		"decoder, masked, classifier, vit, lstm, conformer")
	flags.IntVar(&f.samples, "samples", 0, "tokens drawn per batch for the sampled softmax of an lstm; 0: softmax over all")
	flags.StringVar(&f.sampler, "sampler", "unigram", "how -samples are drawn: unigram (frequency^¾, shared by the batch), or for every position softmax (exact) or a feature family such as positive")
	flags.IntVar(&f.features, "sampler-features", 256, "number of features of -sampler")
	flags.IntVar(&m.Length, "length", 128, "tokens per sequence, or frames of a sound")
	flags.IntVar(&f.join, "join", 1, "largest number of recordings joined into one")
	flags.IntVar(&m.Layers, "layers", 2, "number of blocks")
	flags.IntVar(&m.Width, "width", 64, "width of the model")
	flags.IntVar(&m.Heads, "heads", 4, "number of heads")
	flags.IntVar(&m.KVHeads, "kv-heads", 0, "key/value heads; 0: as heads")
	flags.IntVar(&m.Hidden, "hidden", 0, "width of feed-forward layers; 0: four times the width")
	flags.IntVar(&m.Side, "side", 28, "pixels of an image's side, 28 or more")
	flags.IntVar(&m.Patch, "patch", 4, "pixels of a patch's side")
	flags.BoolVar(&m.Rotary, "rotary", false, "rotary positions instead of learned ones")
	flags.StringVar(&m.Attention, "attention", "exact", "exact, mean, random, self (no attention, to time the rest), lfk, centroid[:CLUSTERS], or FAMILY[:COUPLING[:PROJECTIONS]] such as oprf:simplex:64")
	flags.BoolVar(&m.Dark, "dark", false, "a learned matrix M per head (DARKFormer)")
	flags.IntVar(&m.Window, "window", 0, "number of nearest keys with exact weights")
	flags.IntVar(&m.Sinks, "sinks", 0, "number of first keys with exact weights")
	flags.IntVar(&m.Block, "block", 0, "with centroid: queries that share exact neighbours; 0: 64, for encoders 16 with a window")
	flags.BoolVar(&m.Half, "bf16", false, "bfloat16 inside blocks")
	flags.IntVar(&c.Steps, "steps", 1000, "number of steps")
	flags.IntVar(&c.Warmup, "warmup", 50, "steps of growing learning rate")
	flags.Float64Var(&c.Rate, "rate", 1e-3, "largest learning rate")
	flags.Float64Var(&c.Floor, "floor", 0.1, "last learning rate relative to the largest")
	flags.Float64Var(&c.Decay, "decay", 0.01, "weight decay")
	flags.Float64Var(&c.Clip, "clip", 1, "largest norm of the gradient; 0: no limit")
	flags.IntVar(&c.Accumulate, "accumulate", 1, "batches per step")
	flags.StringVar(&f.devices, "devices", "", "backends of further devices, separated by spaces, which share the -accumulate batches of a step")
	flags.StringVar((*string)(&c.Regime), "regime", string(train.Full), "parameters to train: full, attention (q, k, v and M) or dark (M only)")
	flags.Uint64Var(&c.Seed, "seed", 1, "seed of parameters, data order and projections")
	flags.IntVar(&c.Redraw, "redraw", 0, "steps between new projections; 0: never")
	flags.IntVar(&c.Fit, "fit", 0, "fit the parameters of features per head after this many steps, and at every redraw; 0: never")
	flags.IntVar(&f.run.Log, "log", 10, "steps between lines of metrics")
	flags.IntVar(&f.run.Held, "eval", 200, "steps between evaluations")
	flags.IntVar(&f.run.Save, "save", 200, "steps between checkpoints")
}

func trainCommand(args []string) error {
	var f trainFlags
	flags := flag.NewFlagSet("training train", flag.ContinueOnError)
	f.set(flags)
	if err := similar.ParseFlags(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: all settings are flags, see training train -h", flags.Arg(0))
	}
	if f.out == "" {
		return fmt.Errorf("name the folder of the run: -out DIR")
	}
	source, err := f.source()
	if err != nil {
		return err
	}
	if err := f.model.Validate(); err != nil {
		return err
	}
	b, line, err := f.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	var others []compute.Backend
	for _, name := range strings.Fields(f.devices) {
		o, line, err := backend.Flags{Name: name, Products: f.Products, Kernels: f.Kernels}.Open()
		if err != nil {
			return err
		}
		defer o.Finalize()
		fmt.Fprintln(os.Stderr, line)
		others = append(others, o)
	}
	from := time.Now()
	t, err := train.New(b, f.model, f.config, source)
	if err != nil {
		return err
	}
	defer t.Close()
	fmt.Fprintf(os.Stderr, "compiled in %.1f s\n", time.Since(from).Seconds())
	if len(others) > 0 {
		if err := t.Parallel(others...); err != nil {
			return err
		}
	}
	if f.from != "" {
		if err := f.adopt(t); err != nil {
			return err
		}
	}
	f.run.Dir, f.run.Progress = f.out, terminal(os.Stderr)
	f.run.Says = func(format string, args ...any) {
		if f.run.Progress != nil {
			fmt.Fprint(os.Stderr, "\r\033[K")
		}
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := f.run.Do(ctx, t); err != nil {
		return err
	}
	fmt.Printf("%s\n", filepath.Join(f.out, train.PageFile))
	return nil
}

func terminal(f *os.File) io.Writer {
	if term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// adopt starts with the parameters of another run. Both must have the same vocabulary: equal ids would otherwise
// mean different tokens.
func (f *trainFlags) adopt(t *train.Trainer) error {
	file := filepath.Join(f.from, train.CheckpointFile)
	h, err := train.ReadHeader(file)
	if err != nil {
		return err
	}
	if v, ok := f.run.Extra["vocabulary"]; ok && h.Extra["vocabulary"] != v {
		return fmt.Errorf("%s: its vocabulary is not that of %s: train on the same data and tokens", file, f.data)
	}
	return t.Adopt(file)
}

// source reads the data and completes the model's configuration from them.
func (f *trainFlags) source() (train.Source, error) {
	m := &f.model
	f.run.Extra = map[string]string{}
	if m.Kind == models.ViT {
		if f.data != "mnist" && f.data != "fashion_mnist" {
			return nil, fmt.Errorf("-data %s: images are mnist or fashion_mnist", f.data)
		}
		m.Classes, m.Length = 10, 0
		f.run.Extra["data"] = f.data
		return corpus.NewImages(filepath.Join(f.dir, f.data), m.Side, f.batch, 0, f.held*f.batch)
	}
	m.Side, m.Patch = 0, 0
	switch m.Kind {
	case models.Classifier:
		return f.sentences()
	case models.Conformer:
		return f.sounds()
	}
	learn, held, err := f.texts()
	if err != nil {
		return nil, err
	}
	v, err := f.vocabulary(learn)
	if err != nil {
		return nil, err
	}
	tokens, rest := v.Encode(learn), v.Encode(held)
	f.run.Extra["data"] = f.data + " " + fingerprint(learn)
	if m.Kind == models.Masked {
		m.Vocab++ // the last token is the mask
		return corpus.NewMasked(tokens, rest, f.batch, m.Length, f.held, int32(m.Vocab-1), int32(m.Vocab))
	}
	if m.Kind == models.LSTM && f.samples > 0 && f.sampler != "unigram" {
		return f.drawn(tokens, rest)
	}
	if m.Kind == models.LSTM && f.samples > 0 {
		return corpus.NewSampled(tokens, rest, f.batch, m.Length, f.held, f.samples, m.Vocab)
	}
	return corpus.NewStream(tokens, rest, f.batch, m.Length, f.held)
}

// drawn returns a source that draws negatives from the softmax of the model.
func (f *trainFlags) drawn(tokens, held []int32) (train.Source, error) {
	law := corpus.Law{Exact: f.sampler == "softmax"}
	name := f.sampler
	if law.Exact {
		name = "positive" // only its kernel is used
	}
	fam, err := family.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("-sampler: unigram, softmax, or a family: %w", err)
	}
	law.Spec, err = randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: fam,
		Coupling: coupling.Orthogonal{}, Dim: f.model.Width, Seed: f.config.Seed}.WithFeatures(f.features)
	if err != nil {
		return nil, fmt.Errorf("-sampler-features: %w", err)
	}
	f.run.Extra["sampler"] = fmt.Sprintf("%s %d", f.sampler, f.features)
	return corpus.NewDrawn(tokens, held, f.batch, f.model.Length, f.held, f.samples, f.model.Vocab, law)
}

func fingerprint(s string) string {
	h := fnv.New64a()
	io.WriteString(h, s)
	return fmt.Sprintf("%016x", h.Sum64())
}

func (f *trainFlags) texts() (learn, held string, err error) {
	if strings.ContainsAny(f.data, "./\\") {
		all, err := corpus.ReadText(f.data)
		if err != nil {
			return "", "", err
		}
		learn, held = corpus.Split(all)
		return learn, held, nil
	}
	return corpus.Texts(f.dir, f.data)
}

// vocabulary learns the vocabulary from the training text, or takes that of the run to start from.
func (f *trainFlags) vocabulary(learn string) (*text.Vocabulary, error) {
	size := f.vocab
	if size == 0 {
		size = map[string]int{"words": 10000, "bpe": 2000}[f.tokens]
	}
	var v *text.Vocabulary
	var err error
	if f.from != "" {
		h, err := train.ReadHeader(filepath.Join(f.from, train.CheckpointFile))
		if err != nil {
			return nil, err
		}
		v = new(text.Vocabulary)
		if err := json.Unmarshal([]byte(h.Extra["vocabulary"]), v); err != nil {
			return nil, fmt.Errorf("%s: %w", f.from, err)
		}
	} else if v, err = text.Learn(text.Kind(f.tokens), learn, size); err != nil {
		return nil, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	f.run.Extra["vocabulary"] = string(b)
	f.model.Vocab = v.Size()
	return v, nil
}

func (f *trainFlags) sentences() (train.Source, error) {
	f.model.Classes = 2
	learn, held, err := corpus.Sentences(f.dir, f.data)
	if err != nil {
		return nil, err
	}
	var all strings.Builder
	for _, s := range learn {
		all.WriteString(s.Text + "\n")
	}
	v, err := f.vocabulary(all.String())
	if err != nil {
		return nil, err
	}
	f.model.Vocab++ // room for a mask, as in encoders pretrained on masked tokens
	f.run.Extra["data"] = f.data + " " + fingerprint(all.String())
	items := func(in []corpus.Sentence) []corpus.Item {
		var out []corpus.Item
		for _, s := range in {
			out = append(out, corpus.Item{Tokens: v.Encode(s.Text), Label: s.Label})
		}
		return out
	}
	return corpus.NewLabelled(items(learn), items(held), f.batch, f.model.Length, 2)
}

// sounds reads recordings. The classes of the model are the blank and the tokens of the transcripts.
func (f *trainFlags) sounds() (train.Source, error) {
	read := func() ([]corpus.Recording, error) { return corpus.ReadRecordings(f.data) }
	if f.data == "fsdd" {
		read = func() ([]corpus.Recording, error) { return corpus.Digits(f.dir) }
	} else if !strings.ContainsAny(f.data, "./\\") {
		return nil, fmt.Errorf("-data %s: sounds are fsdd or a folder, ./%s, with %s", f.data, f.data,
			corpus.TranscriptsFile)
	}
	all, err := read()
	if err != nil {
		return nil, err
	}
	between := " "
	if f.tokens == string(text.Chars) {
		between = ""
	}
	var said []string
	for _, r := range all {
		if !r.Held {
			said = append(said, r.Text)
		}
	}
	learn := strings.Join(said, between)
	v, err := f.vocabulary(learn)
	if err != nil {
		return nil, err
	}
	f.model.Vocab, f.model.Classes = 0, v.Size()+1
	f.run.Extra["data"] = f.data + " " + fingerprint(learn)
	var parts [2][]corpus.Utterance
	for _, r := range all {
		u := corpus.Utterance{Name: r.Name, Frames: r.Frames, Letters: v.Line(r.Text)}
		for i := range u.Letters {
			u.Letters[i]++ // 0 is the blank
		}
		i := 0
		if r.Held {
			i = 1
		}
		parts[i] = append(parts[i], u)
	}
	s, err := corpus.NewSounds(parts[0], parts[1], f.batch, f.model.Length, f.join, f.held)
	if err != nil {
		return nil, err
	}
	f.model.Frame = s.Width()
	return s, nil
}
