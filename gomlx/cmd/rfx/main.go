// Command rfx measures and trains attention with random features on GoMLX, and converts pretrained models to it.
//
//	rfx bench -lengths 1024,4096,16384
//	rfx bench step -layers 12 -width 512 -lengths 4096,16384
//	rfx train -data ptb -tokens words -attention oprf:simplex:64 -out run
//	rfx generate -run run -prompt "the company"
//	rfx train -model conformer -data fsdd -tokens words -out digits
//	rfx transcribe -run digits said.wav
//	rfx convert MODEL_DIR -family oprf -window 32 -text calibration.txt -out converted
//	rfx finetune converted -teacher MODEL_DIR -text calibration.txt -out tuned
//	rfx eval MODEL_DIR converted -text other.txt
//	rfx generate converted -prompt "Once upon a time"
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rfx:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]func([]string) error{"bench": bench, "train": trainCommand, "generate": generate,
		"lab": laboratory, "convert": convert, "eval": eval, "finetune": finetune, "transcribe": transcribe}
	if len(args) == 0 || commands[args[0]] == nil {
		return fmt.Errorf("usage: rfx bench|train|generate|transcribe|lab|convert|finetune|eval [flags] (rfx train -h lists them)")
	}
	err := commands[args[0]](args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}
