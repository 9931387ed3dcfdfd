// Package flow runs work that is cut into numbered leaves on Apache Beam. The result is byte-identical on every runner,
// with any number of workers, and after the loss of any of them.
//
// # Usage
//
// Implement [Work], make it known with [Register] in an init function (every worker needs it), and call [Run] with a
// [Job] and its stages. A main program calls [Worker] first, because runners start the same program as a worker.
//
// # Stages
//
// A run is a chain of stages. In a stage every leaf writes a file, the files are merged in the order of their leaves,
// and a last step reads the result and starts the next stage:
//
//	leaf 0, leaf 1, …  →  merge, by groups of the fan-out  →  …  →  end
//
// Only numbers and names of files pass through the runner. Their contents, which can be sums of half a gigabyte, are in
// one folder that all workers see, like the tables that they read. A message of the runner therefore has about a
// hundred bytes, a worker holds only the data of one step, and a runner that keeps its elements in memory keeps no
// sums.
//
// # Invariants
//
// Any step may be repeated, and two workers may run it at the same time. This is safe because the output of a step
// depends only on its inputs, appears in one step, and is not written twice. The inputs of a merge are removed after
// the merge.
package flow

import (
	"context"
	"fmt"
	"sync"
)

// Work is the computation. Its methods may be called concurrently, in several processes and more than once. A file
// must appear atomically: write another one beside it and rename that.
type Work interface {
	// Leaf computes leaf i of a stage and writes its file.
	Leaf(ctx context.Context, stage string, i int, file string) (rows int64, err error)
	// Merge merges files, in order, into one. group is the group of Stage.Groups, or the place in the level of the
	// tree.
	Merge(ctx context.Context, stage string, group int, file string, in []Ref) (rows int64, err error)
	// End is called with the remaining files: the root of the tree, or the file of every group. Anything it writes
	// elsewhere must appear atomically and be the same if End is called again.
	End(ctx context.Context, stage string, in []Ref) error
}

// Ref is a file that a step has written.
type Ref struct {
	Index int    // number of the leaf, or of the merge in its level
	File  string // its path
	Rows  int64  // rows that went into it
}

// Stage is one pass over the leaves.
type Stage struct {
	Name   string
	Leaves int
	// Groups has the group of every leaf: 0, 1, … in ascending order. Each group is merged into one file, and the
	// stage ends. Nil means a tree, whose shape depends only on Leaves and the fan-out.
	Groups []int
}

// Job is the message to workers: how to make the Work, and where its files are.
type Job struct {
	Kind   string // the name given to Register
	Config []byte
	Dir    string // folder for files; all workers must see it
	Fan    int    // files per merge, at least 2
}

var (
	kinds   = map[string]func(config []byte) (Work, error){}
	known   = map[string]Work{} // Work of this process, by kind and config
	knownMu sync.Mutex
)

// Register makes a kind of work known. Call it in an init function, so that every worker has it.
func Register(kind string, open func(config []byte) (Work, error)) { kinds[kind] = open }

// work returns the Work of a job. All steps of a process share it.
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
