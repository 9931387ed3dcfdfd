// Package array reads and writes tables of numbers as npy and npz files.
package array
