package data

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/internal/par"
)

// bombRows are rows that panic at a line.
type bombRows struct {
	*lines
	at int64
}

var errBomb = errors.New("bomb")

func (r bombRows) parseRow(b *Block) error {
	if err := r.next(); err != nil {
		return err
	}
	if r.line == r.at {
		panic(errBomb)
	}
	b.Cols[0].Num = append(b.Cols[0].Num, float64(len(r.record())))
	return nil
}

// A panic of a goroutine that parses reaches who reads, though the pieces behind it wait to be told where they begin.
func TestPiecesPanic(t *testing.T) {
	text := strings.Repeat("some text\n", 5000)
	for _, at := range []int64{1, 2500, 5000} {
		for _, workers := range []int{1, 4} {
			in := input{name: "x", size: int64(len(text)), open: func() (stream, error) {
				return memory{bytes.NewReader([]byte(text))}, nil
			}}
			o := Options{MaxLine: 1000, Workers: workers, piece: 100}
			r, err := newTextReader(in, o, []string{"a"}, []Kind{Number}, nil, 0, 10, func(l *lines) rows { return bombRows{l, at} })
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan *par.Panic)
			go func() {
				defer r.Close()
				ended <- par.Catch(func() {
					for b := new(Block); r.Read(b, 1000) == nil; {
					}
				})
			}()
			select {
			case p := <-ended:
				if !errors.Is(p, errBomb) {
					t.Errorf("line %d, %d workers: the reader got %v", at, workers, p)
				}
			case <-time.After(time.Minute):
				t.Fatalf("line %d, %d workers: all wait", at, workers)
			}
		}
	}
}
