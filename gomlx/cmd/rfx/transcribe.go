package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/randfeat/randfeat/gomlx/internal/corpus"
	"github.com/randfeat/randfeat/gomlx/internal/models"
	"github.com/randfeat/randfeat/gomlx/internal/text"
	"github.com/randfeat/randfeat/gomlx/internal/train"
)

func transcribe(args []string) error {
	flags := flag.NewFlagSet("rfx transcribe", flag.ContinueOnError)
	var d device
	d.set(flags)
	run := flags.String("run", "", "folder of a trained Conformer")
	files, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if *run == "" || len(files) == 0 {
		return fmt.Errorf("usage: rfx transcribe -run DIR FILE.wav…")
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
	b, line, err := d.open()
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
