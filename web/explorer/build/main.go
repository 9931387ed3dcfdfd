// Command build writes the explorer as one HTML file, which opens in any browser without a server:
//
//	go run ./web/explorer/build -o explorer.html
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/web/explorer"
)

func main() {
	out := flag.String("o", "explorer.html", "file to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := write(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, path string) error {
	page, err := explorer.Build(ctx, ".")
	if err != nil {
		return err
	}
	return localfile.Write(path, page)
}
