// Command build writes the explorer as one HTML file, which opens in any browser without a server:
//
//	go run ./web/explorer/build -o explorer.html
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/web/explorer"
)

func main() {
	out := flag.String("o", "explorer.html", "file to write")
	zip := flag.Bool("z", false, "compress it by gzip")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := write(ctx, *out, *zip); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, path string, zip bool) error {
	page, err := explorer.Build(ctx, ".")
	if err != nil {
		return err
	}
	if zip {
		var z bytes.Buffer
		w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(page); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		page = z.Bytes()
	}
	f, err := data.CreateAtomic(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(page); err != nil {
		return err
	}
	return f.Commit()
}
