package text

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/internal/par"
)

// bombRows are rows that panic at a line.
type bombRows struct {
	*lines
	at int64
}

var errBomb = errors.New("bomb")

func (r bombRows) parseRow(b *data.Block) error {
	if err := r.next(); err != nil {
		return err
	}
	if r.line == r.at {
		panic(errBomb)
	}
	b.Cols[0].Num = append(b.Cols[0].Num, float64(len(r.record())))
	return nil
}

// bombFile is a file that panics where the piece with a place is read. Line ends are looked for in longer reads.
type bombFile struct {
	raw.Memory
	at int64
}

func (f bombFile) ReadAt(p []byte, off int64) (int, error) {
	if off <= f.at && f.at < off+int64(len(p)) && len(p) < 1000 {
		time.Sleep(5 * time.Millisecond) // goroutines with pieces behind it come to wait for it
		panic(errBomb)
	}
	return f.Memory.ReadAt(p, off)
}

// A panic of a goroutine that reads or parses a piece reaches the caller, and Close returns: pieces behind it do not
// wait to be told where they begin.
func TestPiecesPanic(t *testing.T) {
	defer func() { testPiece = 0 }()
	testPiece = 100
	const length = int64(len("some text\n"))
	text := strings.Repeat("some text\n", 5000)
	for _, at := range []int64{1, 2500, 5000} {
		for _, workers := range []int{1, 4} {
			for _, where := range []string{"parse", "read"} {
				in := input{name: "x", size: int64(len(text)), open: func() (stream, error) {
					m := raw.Memory{Reader: bytes.NewReader([]byte(text))}
					if where == "read" {
						return bombFile{m, max(20, (at-20)*length)}, nil
					}
					return m, nil
				}}
				o := data.Options{MaxLine: 1000, Workers: workers}
				rows := func(l *lines) rows { return bombRows{l, at} }
				r, err := newTextReader(in, o, []string{"a"}, []data.Kind{data.Number}, nil, 0, 10, rows)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan *par.Panic)
				go func() {
					p := par.Catch(func() {
						for b := new(data.Block); r.Read(b, 1000) == nil; {
						}
					})
					r.Close()
					ended <- p
				}()
				select {
				case p := <-ended:
					if !errors.Is(p, errBomb) {
						t.Errorf("%s, line %d, %d workers: the reader got %v", where, at, workers, p)
					}
				case <-time.After(time.Minute):
					t.Fatalf("%s, line %d, %d workers: all wait", where, at, workers)
				}
			}
		}
	}
}
