// Command training trains models with random-feature attention from scratch on GoMLX, and repeats the papers' training
// experiments.
//
//	training train -data ptb -tokens words -attention oprf:simplex:64 -out run
//	training generate -run run -prompt "the company"
//	training train -model conformer -data fsdd -tokens words -out digits
//	training transcribe -run digits said.wav
//	training bench -layers 12 -width 512 -lengths 4096,16384
//	training lab mnist
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/randfeat/randfeat/internal/suggest/similar"
)

const usage = `training trains models with random-feature attention on GoMLX, and repeats the papers' experiments.

  training train       train a decoder, encoder, vision Transformer, LSTM or Conformer from scratch
  training generate    continue a text with a trained decoder
  training transcribe  transcribe speech with a trained Conformer
  training bench       time whole training steps
  training lab         repeat the papers' training experiments

'training COMMAND -h' lists the flags of a command.
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "training:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]func([]string) error{"train": trainCommand, "generate": generate, "transcribe": transcribe,
		"bench": stepBench, "lab": laboratory}
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		fmt.Print(usage)
		return nil
	}
	if commands[args[0]] == nil {
		hint := "training help lists the commands"
		if near := similar.Nearest(args[0], slices.Collect(maps.Keys(commands))); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return fmt.Errorf("unknown command %q, %s", args[0], hint)
	}
	err := commands[args[0]](args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}
