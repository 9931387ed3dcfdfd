package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/rng"
)

// cellFile is a cell on disk. Its name is the hash of Key; Sum is the hash of Value.
type cellFile struct {
	Key   json.RawMessage `json:"key"`
	Code  string          `json:"code"` // revision that computed it
	Sum   string          `json:"sum"`
	Value json.RawMessage `json:"value"`
}

// cellKey is everything that a value depends on, except the code.
type cellKey struct {
	Item    string `json:"item"`
	Version int    `json:"version"`
	Group   string `json:"group"`
	Seed    uint64 `json:"seed"`
	Key     any    `json:"key"`
}

// Cells computes f of every key on all cores and returns the values in the order of the keys. Cached values are not
// computed again, unless they are damaged. group separates kinds of cells within an item. The seed of f depends only on
// item, group and key, so a value never depends on the other cells.
func Cells[K, V any](l *Lab, group string, keys []K, f func(key K, seed uint64) (V, error)) ([]V, error) {
	values := make([]V, len(keys))
	if len(keys) == 0 {
		return values, nil
	}
	workers := l.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(l.Context)
	defer cancel(nil)
	var (
		mu         sync.Mutex
		done, held int
		wg         sync.WaitGroup
		next       = make(chan int)
	)
	for range min(workers, len(keys)) {
		wg.Go(func() {
			for i := range next {
				cached, err := cell(l, group, keys[i], &values[i], f)
				mu.Lock()
				done++
				if cached {
					held++
				}
				if err != nil {
					cancel(fmt.Errorf("cell %s %+v: %w", group, keys[i], err))
				} else if l.Progress != nil {
					l.Progress(l.item.ID+" "+group, done, len(keys), held)
				}
				mu.Unlock()
			}
		})
	}
feed:
	for i := range keys {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	l.held += held
	l.computed += done - held
	return values, context.Cause(ctx)
}

func cell[K, V any](l *Lab, group string, key K, v *V, f func(K, uint64) (V, error)) (cached bool, err error) {
	full, err := json.Marshal(cellKey{l.item.ID, l.item.Version, group, Seed, key})
	if err != nil {
		return false, err
	}
	hash := sha256.Sum256(full)
	path := ""
	if l.Cache != "" {
		path = filepath.Join(l.Cache, l.item.ID, hex.EncodeToString(hash[:12])+".json")
		if !l.Fresh {
			switch err := read(path, full, v); {
			case err == nil:
				return true, nil
			case !errors.Is(err, fs.ErrNotExist):
				fmt.Fprintf(l.Log, "%s: %v; computed again\n", path, err)
			}
		}
	}
	if *v, err = f(key, rng.Mix64(uint64(hash[0])|uint64(hash[1])<<8|uint64(hash[2])<<16|uint64(hash[3])<<24|
		uint64(hash[4])<<32|uint64(hash[5])<<40|uint64(hash[6])<<48|uint64(hash[7])<<56)); err != nil {
		return false, err
	}
	value, err := json.Marshal(*v)
	if err != nil {
		return false, err
	}
	// Pages show the value as the file holds it, also in the run that computed it, so that cached and fresh runs
	// agree.
	*v = *new(V)
	if err := json.Unmarshal(value, v); err != nil || path == "" {
		return false, err
	}
	return false, write(path, full, value)
}

var errDamaged = errors.New("damaged cell")

func read(path string, key []byte, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var c cellFile
	if err := json.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("%w: %v", errDamaged, err)
	}
	if !bytes.Equal(c.Key, key) || c.Sum != sum(c.Value) {
		return fmt.Errorf("%w: the checksum or the key is not its own", errDamaged)
	}
	return json.Unmarshal(c.Value, v)
}

func write(path string, key, value []byte) error {
	b, err := json.Marshal(cellFile{key, Revision(), sum(value), value})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return localfile.Write(path, b)
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Revision returns the commit this program was built from, if known.
var Revision = sync.OnceValue(func() string {
	rev, dirty := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				rev = s.Value[:min(12, len(s.Value))]
			case "vcs.modified":
				if s.Value == "true" {
					dirty = "+"
				}
			}
		}
	}
	if rev == "unknown" { // "go run" does not stamp the build; its working folder is in the sources
		if out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
			rev = strings.TrimSpace(string(out))
		}
	}
	return rev + dirty
})
