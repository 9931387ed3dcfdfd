package data

import (
	"math"
	"time"

	"github.com/randfeat/randfeat/internal/cell"
)

// The orders in which texts spell dates. [Field].Format stores them in models.
const (
	yearFirst  = "year-month-day"
	dayFirst   = "day-month-year"
	monthFirst = "month-day-year"
)

// dates holds the statistics of the cells of a column read as dates, in each order.
type dates struct {
	days    [3]moments // of yearFirst, dayFirst, monthFirst
	wide    [3]octaves // the same by magnitude, for outliers
	clock   bool       // some have a time of day
	dotted  bool       // all dates so far are separated by points
	started bool       // there was a date
}

var dateOrders = [3]string{yearFirst, dayFirst, monthFirst}

// add reads a cell in every order and reports in which orders it is a date.
func (d *dates) add(text []byte) (is [3]bool) {
	if !mayBeTime(text) {
		return is
	}
	for k, order := range dateOrders {
		t, point, ok := parseTime(text, order)
		if is[k] = ok; !ok {
			continue
		}
		d.days[k].add(t.days())
		d.wide[k].add(t.days())
		d.clock = d.clock || t.seconds != 0
		d.dotted = point && (d.dotted || !d.started)
		d.started = true
	}
	return is
}

// mayBeTime rejects most texts quickly: a date has a digit among its first characters.
func mayBeTime(text []byte) bool {
	for _, c := range text[:min(len(text), 24)] {
		if c-'0' <= 9 {
			return true
		}
	}
	return false
}

// merge adds the cells that o has seen.
func (d *dates) merge(o *dates) {
	for k := range d.days {
		d.days[k].merge(o.days[k])
		d.wide[k].merge(&o.wide[k])
	}
	d.clock = d.clock || o.clock
	d.dotted = (d.dotted || !d.started) && (o.dotted || !o.started) && (d.started || o.started)
	d.started = d.started || o.started
}

// of returns the order in which most cells are dates; ok is false if too many cells are none. If day and month
// could be either way round, dates with points are day first, as in Europe; others are month first, and both is
// set.
func (d *dates) of(cells int64) (k int, both, ok bool) {
	n := [3]int64{d.days[0].n, d.days[1].n, d.days[2].n}
	switch {
	case n[0] > 0 && n[0] >= max(n[1], n[2]):
	case n[1] > n[2] || n[1] == n[2] && d.dotted:
		k = 1
	default:
		k, both = 2, n[1] == n[2]
	}
	return k, both, tolerated(cells-n[k], cells)
}

// moment is a date and a time of day as on a wall clock: offsets from UTC are dropped, because daily and weekly
// rhythms follow local time.
type moment struct {
	date    int64   // days since 1970
	yearDay float64 // fraction of the year, from 0 to 1
	weekday int     // Sunday is 0
	seconds float64 // of the day
}

// days is the number of days since 1970, with the time of day as a fraction.
func (m moment) days() float64 { return float64(m.date) + m.seconds/86400 }

// timeWidth is the number of encoded columns of a time: elapsed days, sine and cosine of the year, of the week and, if
// there are times of day, of the day.
func timeWidth(clock bool) int {
	if clock {
		return 7
	}
	return 5
}

// encode writes the encoded columns of a time. Sine and cosine make the ends of a year, week or day neighbours.
func (m moment) encode(row []float64, f *Field) {
	days := m.days()
	if f.Clip != nil {
		days = min(max(days, f.Clip[0]), f.Clip[1])
	}
	row[0] = (days - f.Mean) / f.Scale
	turn := func(at int, share float64) { row[at], row[at+1] = math.Sincos(2 * math.Pi * share) }
	turn(1, m.yearDay)
	turn(3, (float64(m.weekday)+m.seconds/86400)/7)
	if f.Clock {
		turn(5, m.seconds/86400)
	}
}

// parseTime reads a date in an order. The parts may be separated by / . - or blanks, months may be numbers or
// English names, and a time of day and an offset may follow: 2024-03-01T12:30:00.5Z, 1.3.2024, Mar 1, 2024
// 12:30 PM. A year at the end may have two digits; 69 and more mean 19xx: 2/19/21, 19-Feb-21, 19.02.21. A month
// without a day, 2021-02, is its first day. point reports that points separate the parts.
func parseTime(b []byte, order string) (m moment, point, ok bool) {
	b = cell.TrimBlanks(b)
	if len(b) < 6 || len(b) > 64 {
		return m, false, false
	}
	// Complete a month to its first day.
	if order == yearFirst && len(b) == 7 && (b[4] == '-' || b[4] == '/') {
		b = append(append(make([]byte, 0, 10), b...), b[4], '0', '1')
	}
	if n := letters(b); n >= 3 && weekday(b[:n]) { // Mon, 1 Mar 2024
		for b = b[n:]; len(b) > 0 && (b[0] == ',' || b[0] == ' ' || b[0] == '.'); {
			b = b[1:]
		}
	}
	p, b, ok := scanDate(b)
	if !ok {
		return m, false, false
	}
	date, ok := p.date(order)
	if !ok {
		return m, false, false
	}
	m.date = date.Unix() / 86400
	if date.Unix() < 0 && date.Unix()%86400 != 0 {
		m.date--
	}
	m.weekday = int(date.Weekday())
	length := 365.0
	if time.Date(date.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay() == 366 {
		length = 366
	}
	if m.seconds, ok = parseClock(b); !ok {
		return m, false, false
	}
	m.yearDay = (float64(date.YearDay()-1) + m.seconds/86400) / length
	return m, p.point, true
}

// dateParts are the three parts of a date, in the order of the text.
type dateParts struct {
	part, width [3]int
	named       int  // the part that is the name of a month, -1: none
	slashes     bool // only slashes separate the parts
	point       bool // a point does
}

// scanDate reads the parts of a date, and returns what follows.
func scanDate(b []byte) (p dateParts, rest []byte, ok bool) {
	p.named, p.slashes = -1, true
	for k := range p.part {
		if n := letters(b); n >= 3 && p.named < 0 {
			if p.part[k], ok = monthNamed(b[:n]); !ok {
				return p, b, false
			}
			p.named, b = k, b[n:]
		} else {
			n := 0
			for n < len(b) && n < 5 && b[n]-'0' <= 9 {
				p.part[k] = 10*p.part[k] + int(b[n]-'0')
				n++
			}
			if n == 0 || n > 4 {
				return p, b, false
			}
			p.width[k], b = n, b[n:]
		}
		if k == 2 {
			break
		}
		n := 0
		for n < len(b) && n < 2 && (b[n] == '-' || b[n] == '/' || b[n] == '.' || b[n] == ' ' || b[n] == ',') {
			p.point, p.slashes = p.point || b[n] == '.', p.slashes && b[n] == '/'
			n++
		}
		if n == 0 {
			return p, b, false
		}
		b = b[n:]
	}
	return p, b, true
}

// date is the day that the parts mean in an order.
func (p *dateParts) date(order string) (date time.Time, ok bool) {
	year, month, day := 0, 1, 2 // places of the parts
	switch order {
	case dayFirst:
		year, month, day = 2, 1, 0
	case monthFirst:
		year, month, day = 2, 0, 1
	}
	if p.named >= 0 && p.named != month || p.width[day] > 2 || p.width[month] > 2 {
		return date, false
	}
	y, m, d := p.part[year], p.part[month], p.part[day]
	switch {
	case p.width[year] == 4:
	case p.width[year] != 2 || order == yearFirst:
		return date, false
	case !p.slashes && p.named < 0 && (p.width[day] != 2 || p.width[month] != 2):
		return date, false // 3.10.12 is a version number, not a date
	case y < 69:
		y += 2000
	default:
		y += 1900
	}
	if m < 1 || m > 12 || d < 1 || d > 31 {
		return date, false
	}
	date = time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	return date, date.Day() == d // time.Date normalises 30 February to March
}

// parseClock reads the rest after a date: nothing, or a time such as T12:30:00.5 with AM or PM and an offset,
// which is dropped.
func parseClock(b []byte) (seconds float64, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != 'T' && b[0] != 't' && b[0] != ' ' && b[0] != ',' {
		return 0, false
	}
	b = cell.TrimBlanks(b[1:])
	var part [3]float64
	for k := range part {
		n, v := 0, 0.0
		for n < len(b) && b[n]-'0' <= 9 {
			v = 10*v + float64(b[n]-'0')
			n++
		}
		if n == 0 || n > 2 {
			return 0, false
		}
		if part[k], b = v, b[n:]; k == 2 && len(b) > 0 && (b[0] == '.' || b[0] == ',') {
			n, unit := 1, 0.1
			for ; n < len(b) && b[n]-'0' <= 9; n++ {
				part[k] += unit * float64(b[n]-'0')
				unit /= 10
			}
			b = b[n:]
		}
		if len(b) == 0 || b[0] != ':' {
			if k == 0 {
				return 0, false
			}
			break
		}
		if k < 2 {
			b = b[1:]
		}
	}
	b = cell.TrimBlanks(b)
	if len(b) >= 2 && (b[1]|0x20 == 'm') && (b[0]|0x20 == 'a' || b[0]|0x20 == 'p') {
		if part[0] < 1 || part[0] > 12 {
			return 0, false
		}
		part[0] = math.Mod(part[0], 12)
		if b[0]|0x20 == 'p' {
			part[0] += 12
		}
		b = cell.TrimBlanks(b[2:])
	}
	// 24:00 and leap seconds are accepted.
	if part[0] > 24 || part[1] > 59 || part[2] >= 61 || !offset(b) {
		return 0, false
	}
	return 3600*part[0] + 60*part[1] + part[2], true
}

// offset reports whether b is an offset from UTC, or empty.
func offset(b []byte) bool {
	switch s := string(b); s {
	case "", "Z", "z", "UTC", "GMT":
		return true
	}
	if b[0] != '+' && b[0] != '-' || len(b) > 6 {
		return false
	}
	digits := 0
	for _, c := range b[1:] {
		if c-'0' <= 9 {
			digits++
		} else if c != ':' {
			return false
		}
	}
	return digits == 2 || digits == 4
}

func letters(b []byte) int {
	n := 0
	for n < len(b) && b[n]|0x20 >= 'a' && b[n]|0x20 <= 'z' {
		n++
	}
	return n
}

func monthNamed(b []byte) (int, bool) {
	for m := time.January; m <= time.December; m++ {
		if beginsName(m.String(), b) {
			return int(m), true
		}
	}
	return 0, false
}

func weekday(b []byte) bool {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if beginsName(d.String(), b) {
			return true
		}
	}
	return false
}

// beginsName reports whether b is a name or its first three letters, in any case.
func beginsName(name string, b []byte) bool {
	if len(b) != 3 && len(b) != len(name) {
		return false
	}
	for i, c := range b {
		if c|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}
