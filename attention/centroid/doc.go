// Package centroid computes attention over clusters of keys and over the few keys that matter to a query exactly.
package centroid
