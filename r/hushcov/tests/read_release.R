library(hushcov)

folder <- system.file("extdata", "release", package = "hushcov")
release <- read_release(folder)
stopifnot(
  inherits(release, "hushcov_release"),
  identical(dimnames(release$covariance), dimnames(release$correlation)),
  isSymmetric(release$covariance),
  all(diag(release$correlation) == 1),
  release$guarantee$epsilon == 1, release$guarantee$private,
  release$verdict$least <= release$verdict$error, release$verdict$error <= release$verdict$most,
  nrow(release$pairs) == choose(nrow(release$covariance), 2),
  all(release$pairs$correlation_lower <= release$pairs$correlation_upper)
)
said <- capture.output(print(release), print(summary(release)))
stopifnot(any(grepl("verdict", said)), any(grepl("height", said)), any(grepl("Variances", said)))

refused <- function(expression, words) {
  message <- tryCatch({ expression; "nothing" }, error = conditionMessage)
  if (!grepl(words, message, fixed = TRUE)) stop("said ", message, ", not ", words)
}
copy <- file.path(tempdir(), "a copy; echo")
dir.create(copy)
file.copy(list.files(folder, full.names = TRUE), copy)
invisible(read_release(copy))
refused(read_release(tempdir()), "must be the folder of a release")
refused(read_release(1), "folder must be one path")
path <- file.path(copy, "pairs.csv")
lines <- readLines(path)
writeLines(sub("nonzero", "nonozer", lines), path)  # as long as before
if (grepl("SHA-256 checksums", release$checked)) {
  refused(read_release(copy), "pairs.csv does not match its checksum")
}
writeLines(lines[-2L], path)
refused(read_release(copy), "pairs.csv has another size")
unlink(path)
refused(read_release(copy), "pairs.csv is missing")
refused(read_release(copy, check = FALSE), "has no pairs.csv")
