package par

import (
	"runtime"
	"testing"
)

// laps are items that each wait for the one a lap before, in a table that several of them would write at the same time
// otherwise.
type laps struct {
	turns Turns
	sum   []int
}

func (l *laps) Item(_ *scratch, i int) error {
	lane, lap := i%len(l.sum), i/len(l.sum)
	l.turns.Await(lane, lap)
	if l.sum[lane]++; i%7 == 0 {
		runtime.Gosched()
	}
	l.turns.Done(lane)
	return nil
}

func TestTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var c Crew[scratch]
	var l laps
	for _, lanes := range []int{1, 2, 9} {
		l.sum = make([]int, lanes)
		l.turns.Reset(lanes)
		if err := c.Do(300*lanes, 4, &l); err != nil {
			t.Fatal(err)
		}
		for lane, n := range l.sum {
			if n != 300 {
				t.Errorf("%d lanes: %d laps of 300 in lane %d", lanes, n, lane)
			}
		}
	}
	if n := testing.AllocsPerRun(10, func() { l.turns.Reset(2) }); n > 0 {
		t.Errorf("%v allocations in a Reset of fewer counters", n)
	}
}
