package centroid

import (
	"math/rand/v2"
	"testing"
)

// Jobs come out by urgency, and the least urgent by rank, whatever has been added and taken before.
func TestFlowOrder(t *testing.T) {
	var f flow
	f.begin(true)
	r := rand.New(rand.NewPCG(1, 2))
	ready := 0
	for range 2000 {
		if ready == 0 || r.IntN(5) < 3 {
			f.push(r.IntN(3), flowJob{rank: r.IntN(50)})
			ready++
			continue
		}
		urgent := len(f.ready[0])+len(f.ready[1]) > 0
		j, ok := f.take()
		if !ok {
			t.Fatal("no job, but some are ready")
		}
		f.done(j, func(flowJob) {})
		if ready--; urgent {
			continue
		}
		for _, left := range f.ready[2] {
			if left.rank > j.rank {
				t.Fatalf("a job of rank %d comes before one of rank %d", j.rank, left.rank)
			}
		}
	}
	for ; ready > 0; ready-- {
		j, ok := f.take()
		if !ok {
			t.Fatalf("%d jobs are lost", ready)
		}
		f.done(j, func(flowJob) {})
	}
	if _, ok := f.take(); ok {
		t.Error("a job too many")
	}
}
