// Command words trains an LSTM language model on the CPU and writes its embeddings (keys), outputs at held-out places
// (queries) and word counts as npy files. bench/sampling measures samplers on them, and the items hybrid-table4 and
// hybrid-fig7 to hybrid-fig9 read them from the folder lstm of the data folder.
//
//	go -C repro run ./words -set ptb -epochs 4 -out DIR
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/randfeat/randfeat/repro/lab"
	"github.com/randfeat/randfeat/repro/papers"
)

func main() {
	set := flag.String("set", "ptb", "text: ptb or wikitext2")
	out := flag.String("out", "", "`folder` for SET-keys.npy, SET-queries.npy and SET-counts.npy")
	dir := flag.String("data", os.Getenv("RANDFEAT_DATA"), "`folder` of data sets")
	words := flag.Int("words", 1<<30, "words of the text to read")
	epochs := flag.Int("epochs", 1, "how often to read them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *out == "" || flag.NArg() > 0 || *words < 1000 || *epochs < 1 {
		fmt.Fprintln(os.Stderr, "usage: words -out DIR [-set ptb] [-words N ≥ 1000] [-epochs N]")
		os.Exit(2)
	}
	what, err := papers.SaveWords(&lab.Lab{Context: ctx, DataDir: *dir}, *set, *out, *words, *epochs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
	fmt.Println(what)
}
