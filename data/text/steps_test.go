package text

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/randfeat/randfeat/data"
)

// countedReads counts what is read by who looks for the end of a piece, which one goroutine does at a time, and by who
// parses it.
type countedReads struct {
	io.ReaderAt
	marks, pieces, serial, total atomic.Int64
}

func (c *countedReads) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	if len(p) <= 1<<12 {
		c.marks.Add(1)
		c.serial.Add(int64(n))
	} else {
		c.pieces.Add(1)
	}
	c.total.Add(int64(n))
	return n, err
}

// A file of numbers comes in several pieces for every goroutine, each of which reads its own: what goroutines wait for
// each other is a small part of the bytes. Counts on two cores replace times on sixteen.
func TestPiecesFeedWorkers(t *testing.T) {
	var b strings.Builder
	b.WriteString("a,b,c,d\n")
	for i := range 60_000 {
		fmt.Fprintf(&b, "%d.25,-0.001%d,%d,1e-5\n", i, i, i*i)
	}
	path := filepath.Join(t.TempDir(), "numbers.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := []data.Kind{data.Number, data.Number, data.Number, data.Number}
	for _, workers := range []int{2, 8} {
		src, err := Open(path, data.Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		r, err := src.Open(kinds)
		if err != nil {
			t.Fatal(err)
		}
		text := r.(*textReader)
		c := &countedReads{ReaderAt: text.at}
		text.at = c
		rows := 0
		for block := new(data.Block); ; rows += block.Rows {
			if err = r.Read(block, 4096); err != nil {
				break
			}
		}
		if err != io.EOF || rows != 60_000 {
			t.Fatalf("%d rows, then %v", rows, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if c.pieces.Load() < int64(3*workers) || c.marks.Load() > c.pieces.Load()+1 {
			t.Errorf("%d workers: %d pieces, found by %d looks at the file, want %d and one for each", workers,
				c.pieces.Load(), c.marks.Load(), 3*workers)
		}
		if c.serial.Load() > c.total.Load()/10 {
			t.Errorf("%d workers: %d of %d bytes are read one after the other", workers, c.serial.Load(),
				c.total.Load())
		}
	}
	// A small table is not worth a goroutine.
	before := runtime.NumGoroutine()
	src, err := OpenReader("few.csv", strings.NewReader("a,b\n1,2\n3,4\n"), data.Options{Workers: 8})
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.Open([]data.Kind{data.Number, data.Number})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Read(new(data.Block), 10); err != nil || runtime.NumGoroutine() > before {
		t.Errorf("%v, %d goroutines for two rows, %d before", err, runtime.NumGoroutine(), before)
	}
}
