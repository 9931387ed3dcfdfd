// Package control is the laboratory's robot: a planar walker on stepping stones that sees the ground through a depth
// camera and places its feet by a policy with implicit attention, trained by evolution strategies. It repeats the
// experiment of Hybrid Random Features, §4.4 and K.1, whose quadruped and simulator are not public.
//
// Everything is a function of a seed: the same configuration has the same rewards, on any number of workers.
package control
