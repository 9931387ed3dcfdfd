package data

var ReadLearner = readLearner

// Track makes a learner that has read nothing hold n texts of a column.
func (l *Learner) Track(n int) {
	l.tracked = n
	for _, c := range l.cols {
		c.counts = l.newCounts(c.role)
	}
}

// TrackLater is Track for a learner that has read rows: it holds for columns that are merged.
func (l *Learner) TrackLater(n int) { l.tracked = n }
