// Package flow runs work that is cut into numbered leaves on Apache Beam, so that the result has the same bytes on
// every runner, with any number of workers, and after any of them was lost.
//
// A run is a chain of stages. In a stage every leaf writes a file, the files are merged in the order of their leaves,
// and one last step sees what is left and begins the next stage:
//
//	leaf 0, leaf 1, …  →  merge, by groups of the fan-out  →  …  →  end
//
// Only the numbers and names of files pass through the runner. What is in them, sums of half a gigabyte among it, lies
// in one folder that all workers see, as they see the tables that they read. So a message of the runner is a hundred
// bytes, a worker holds what one step needs, and a runner that keeps its elements in memory keeps no sums.
//
// Any step may be run again, and by two workers at the same time: what it writes depends on its inputs alone, appears
// in one step, and is not written twice. The inputs of a merge are removed once it is done.
package flow

import (
	"context"
	"fmt"
	"sync"
)

// Work is what is run; it serves several calls at a time. Files are written by store.Put, or
// its like.
type Work interface {
	// Leaf does a stage for leaf i and writes a file.
	Leaf(ctx context.Context, stage string, i int, file string) (rows int64, err error)
	// Merge writes one file of several, in order; group is that of Stage.Groups, or the place in the tree.
	Merge(ctx context.Context, stage string, group int, file string, in []Ref) (rows int64, err error)
	// End is called with what is left: the root of the tree, or the file of every group. What it writes elsewhere must
	// appear in one step, and be the same if it is called again.
	End(ctx context.Context, stage string, in []Ref) error
}

// Ref is a file that a step has written.
type Ref struct {
	Index int    // of the leaf, or of the merge in its level
	File  string // its path
	Rows  int64  // that went into it
}

// Stage is one pass over the leaves.
type Stage struct {
	Name   string
	Leaves int
	// Groups has the group of every leaf, 0, 1, … in order: each group is merged into one file, and that is all. Nil: a
	// tree, whose shape depends on Leaves and the fan-out alone.
	Groups []int
}

// Job is what a worker is told: how to make the Work again, and where its files are.
type Job struct {
	Kind   string // of Register
	Config []byte
	Dir    string // seen by all workers
	Fan    int    // files that a merge takes; at least 2
}

var (
	kinds   = map[string]func(config []byte) (Work, error){}
	known   = map[string]Work{} // by kind and config
	knownMu sync.Mutex
)

// Register makes a kind of work known. It is called by init functions, so that every worker has it.
func Register(kind string, open func(config []byte) (Work, error)) { kinds[kind] = open }

// work is the Work of a job, the same one for all steps of a process.
func (j Job) work() (Work, error) {
	knownMu.Lock()
	defer knownMu.Unlock()
	key := j.Kind + "\x00" + string(j.Config)
	if w, ok := known[key]; ok {
		return w, nil
	}
	open, ok := kinds[j.Kind]
	if !ok {
		return nil, fmt.Errorf("this worker does not know the work %q: it is another program than the one that began the run",
			j.Kind)
	}
	w, err := open(j.Config)
	if err == nil {
		known[key] = w
	}
	return w, err
}

// forget drops the Work of a job that is over.
func (j Job) forget() {
	knownMu.Lock()
	defer knownMu.Unlock()
	delete(known, j.Kind+"\x00"+string(j.Config))
}
