package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/gomlx/compute"
	"golang.org/x/term"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/pretrained"
	"github.com/randfeat/randfeat/gomlx/train"
)

type finetuneFlags struct {
	backend.Flags
	out, teacher, text, goal        string
	length, passages, batch, distil int
	config                          train.Config
	run                             train.Run
}

func finetune(args []string) error {
	var f finetuneFlags
	c := &f.config
	flags := flag.NewFlagSet("rfx finetune", flag.ContinueOnError)
	f.Flags.Set(flags)
	flags.StringVar(&f.out, "out", "", "folder of the tuned model, with the training in run; an interrupted run continues; required")
	flags.StringVar(&f.teacher, "teacher", "", "folder of the original model, for goals embed and attend and for -distil")
	flags.StringVar(&f.text, "text", "", "text file to train on; its last tenth is held out; required")
	flags.StringVar(&f.goal, "goal", "", "next (decoders), embed (encoders), attend (attention outputs); empty: next or embed")
	flags.IntVar(&f.distil, "distil", 0, "steps of goal attend before the others")
	flags.IntVar(&f.length, "length", 256, "tokens per passage")
	flags.IntVar(&f.passages, "passages", 4096, "largest number of passages")
	flags.IntVar(&f.batch, "batch", 8, "passages per batch")
	flags.StringVar((*string)(&c.Regime), "regime", string(train.Dark), "parameters to train: dark (M only), attention (q, k, v and M) or full")
	flags.IntVar(&c.Steps, "steps", 500, "number of steps")
	flags.IntVar(&c.Warmup, "warmup", 20, "steps of growing learning rate")
	flags.Float64Var(&c.Rate, "rate", 1e-3, "largest learning rate")
	flags.Float64Var(&c.Floor, "floor", 0.1, "last learning rate relative to the largest")
	flags.Float64Var(&c.Decay, "decay", 0, "weight decay")
	flags.Float64Var(&c.Clip, "clip", 1, "largest norm of the gradient; 0: no limit")
	flags.IntVar(&c.Accumulate, "accumulate", 1, "batches per step")
	flags.Uint64Var(&c.Seed, "seed", 1, "seed of the order of passages")
	flags.IntVar(&f.run.Log, "log", 10, "steps between lines of metrics")
	flags.IntVar(&f.run.Held, "eval", 100, "steps between evaluations")
	flags.IntVar(&f.run.Save, "save", 200, "steps between checkpoints")
	dir, err := oneFolder(flags, args, "rfx finetune CONVERTED_DIR -text FILE -out DIR")
	if err != nil {
		return err
	}
	if f.out == "" || f.text == "" {
		return fmt.Errorf("name a text and the folder of the tuned model: -text FILE -out DIR")
	}
	out := filepath.Join(f.out, "model")
	if err := pretrained.Free(out); err != nil {
		return err
	}
	m, err := pretrained.Load(dir)
	if err != nil {
		return err
	}
	t := pretrained.Tuning{Model: m, Goal: pretrained.Goal(f.goal), Regime: c.Regime}
	if t.Goal == "" {
		if t.Goal = pretrained.Embed; m.Causal() {
			t.Goal = pretrained.Next
		}
	}
	if f.teacher != "" {
		if t.Teacher, err = pretrained.Load(f.teacher); err != nil {
			return err
		}
	}
	if f.distil > 0 && f.teacher == "" {
		return fmt.Errorf("-distil needs a teacher: -teacher MODEL_DIR")
	}
	if c.Regime == train.Dark && !m.Trainable() {
		return fmt.Errorf("%s has no matrix M to train: convert with -family dark, or take -regime attention or full", dir)
	}
	passages, err := readPassages(m, f.text, f.length, f.passages)
	if err != nil {
		return err
	}
	source, err := pretrained.NewPassages(passages, f.batch)
	if err != nil {
		return fmt.Errorf("%s: %w", f.text, err)
	}
	b, line, err := f.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	if f.distil > 0 {
		first, config := t, *c
		first.Goal, config.Steps = pretrained.Attend, f.distil
		if err := f.phase(b, first, config, source, "distil"); err != nil {
			return err
		}
	}
	if err := f.phase(b, t, *c, source, "run"); err != nil {
		return err
	}
	return m.Save(out)
}

// phase trains for one goal and copies the result into the model.
func (f *finetuneFlags) phase(b compute.Backend, t pretrained.Tuning, c train.Config, s train.Source,
	name string) error {
	trainer, err := train.New(b, t, c, s)
	if err != nil {
		return err
	}
	defer trainer.Close()
	before, err := trainer.Evaluate()
	if err != nil {
		return err
	}
	r := f.run
	r.Dir, r.Progress = filepath.Join(f.out, name), terminal(os.Stderr)
	r.Says = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.Do(ctx, trainer); err != nil {
		return err
	}
	after, err := trainer.Evaluate()
	if err != nil {
		return err
	}
	values, err := trainer.Get()
	if err != nil {
		return err
	}
	if err := t.Trained(values); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"phase": name, "goal": t.Goal, "regime": c.Regime,
		"steps": c.Steps, "held_loss_before": before.Loss, "held_loss": after.Loss})
}

func terminal(f *os.File) io.Writer {
	if term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}
