// Command rfx measures attention with random features on GoMLX, and converts pretrained models to it.
//
//	rfx bench -lengths 1024,4096,16384
//	rfx convert MODEL_DIR -family oprf -window 32 -text calibration.txt -out converted
//	rfx finetune converted -teacher MODEL_DIR -text calibration.txt -out tuned
//	rfx eval MODEL_DIR converted -text other.txt
//	rfx generate converted -prompt "Once upon a time"
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

const usage = `rfx measures attention with random features on GoMLX, and converts pretrained models to it.

  rfx bench     time attention, exact and with features, forward and backward
  rfx tune      search the sizes of GPU kernels for a length
  rfx generate  continue a text with a pretrained or converted decoder
  rfx convert   replace the attention of a pretrained model (BERT, GPT-2, Llama, Gemma)
  rfx finetune  tune a converted model, with the original as its teacher
  rfx eval      compare models on a text

'rfx COMMAND -h' lists the flags of a command.
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rfx:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]func([]string) error{"bench": bench, "generate": generate, "convert": convert,
		"eval": eval, "finetune": finetune, "tune": tune}
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		fmt.Print(usage)
		return nil
	}
	if commands[args[0]] == nil {
		hint := "rfx help lists the commands"
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
