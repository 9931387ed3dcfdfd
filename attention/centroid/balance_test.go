package centroid

import "testing"

// Heads with plans of different price keep 16 processors busy: the last ends at most a quarter later than if the work,
// with the passes of the largest tasks, were shared to the last operation.
func TestBalance(t *testing.T) {
	for _, equal := range []bool{true, false} {
		var b balancer
		work := 0.0
		for i := range 8 {
			l := blockList{blocks: 64, block: 2e6, pass: 4e6}
			if !equal {
				l.block *= 1 + float64(i%5)
				l.blocks >>= i % 3
			}
			work += float64(l.blocks)*l.block + float64(l.blocks)/tiltBlocks*l.pass
			b.lists = append(b.lists, l)
		}
		for i := range b.lists {
			b.lists[i].each = tiltBlocks
		}
		b.order, b.loads = make([]int, len(b.lists)), make([]float64, 16)
		if end := b.end() / (work / 16); end < 1.25 && !equal {
			t.Errorf("the largest tasks would do: %.2f", end)
		}
		b.run(16, tiltBlocks)
		if end := b.end() / (work / 16); end > 1.25 || end < 1 {
			t.Errorf("equal %t: the last processor ends at %.2f of the mean, tasks %+v", equal, end, b.lists)
		}
		for _, l := range b.lists {
			if l.each < 1 || l.each > tiltBlocks {
				t.Errorf("equal %t: a task of %d blocks", equal, l.each)
			}
		}
	}
	// One processor wants few passes.
	b := balancer{lists: []blockList{{blocks: 40, block: 1, pass: 1}, {blocks: 3, block: 1, pass: 1}, {}}}
	b.run(1, tiltBlocks)
	for i, want := range []int{tiltBlocks, 3, 1} {
		if got := b.lists[i].each; got != want {
			t.Errorf("list %d: tasks of %d blocks, want %d", i, got, want)
		}
	}
}
