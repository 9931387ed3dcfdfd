// Command rfx measures attention with random features on GoMLX.
//
//	rfx bench -lengths 1024,4096,16384
package main

import (
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
	if len(args) == 0 || args[0] != "bench" {
		return fmt.Errorf("usage: rfx bench [flags] (rfx bench -h lists them)")
	}
	err := bench(args[1:])
	if err == flag.ErrHelp {
		return nil
	}
	return err
}
