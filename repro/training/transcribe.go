package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
	"github.com/randfeat/randfeat/repro/training/text"
)

func transcribe(args []string) error {
	flags := flag.NewFlagSet("training transcribe", flag.ContinueOnError)
	var d backend.Flags
	d.Set(flags)
	run := flags.String("run", "", "folder of a trained Conformer")
	files, err := similar.Arguments(flags, args)
	if err != nil {
		return err
	}
	if *run == "" || len(files) == 0 {
		return fmt.Errorf("usage: training transcribe -run DIR FILE.wav…")
	}
	file := filepath.Join(*run, train.CheckpointFile)
	store, h, err := train.Load(file)
	if err != nil {
		return err
	}
	defer store.Finalize()
	var v text.Vocabulary
	if err := json.Unmarshal([]byte(h.Extra["vocabulary"]), &v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var m models.Config
	if err := json.Unmarshal(h.Model, &m); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if m.Kind == models.Conformer && v.Size()+1 != m.Classes {
		return fmt.Errorf("%s: %d tokens in its vocabulary, %d classes in its model", file, v.Size(), m.Classes)
	}
	b, line, err := d.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	for batch := range slices.Chunk(files, 64) {
		sounds, err := corpus.ReadFrames(batch...)
		if err != nil {
			return err
		}
		all, err := m.Transcribe(b, store, sounds...)
		if err != nil {
			return err
		}
		for i, letters := range all {
			for j := range letters {
				letters[j]-- // 0 was the blank
			}
			said, err := v.Decode(letters)
			if err != nil {
				return err
			}
			fmt.Printf("%s\t%s\n", batch[i], said)
		}
	}
	return nil
}
