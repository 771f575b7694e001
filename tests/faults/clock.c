/*
 * Gives a process another time of day: LD_PRELOAD this, with the file of the offset in CALVE_TEST_CLOCK (8 bytes, whole
 * seconds ahead of the true time, which may change at any time). The monotonic clock stays. Waits until a time of day
 * last as long as they would have if the clock had not jumped meanwhile. Times of files stay, too.
 *
 * libfaketime 0.9.10 cannot stand in for it: with its monotonic clock left alone, clock_nanosleep(CLOCK_MONOTONIC,
 * TIMER_ABSTIME), which is Python's time.sleep, fails with EINVAL.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none = 0;
static const volatile int64_t *ahead = &none;

__attribute__((constructor)) static void open_clock(void) {
  const char *name = getenv("CALVE_TEST_CLOCK");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file >= 0) {
    void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    ahead = found == MAP_FAILED ? &none : found;
    close(file);
  }
}

static int is_time_of_day(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) {
    real = dlsym(RTLD_NEXT, "clock_gettime");
  }
  int result = real(clock, found);
  if (!result && is_time_of_day(clock)) {
    found->tv_sec += *ahead;
  }
  return result;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  found->tv_sec = now.tv_sec;
  found->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *found) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (found) {
    *found = now.tv_sec;
  }
  return now.tv_sec;
}

static struct timespec truly(const struct timespec *until) {
  struct timespec found = *until;
  found.tv_sec -= *ahead;
  return found;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
  static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
  if (!real) {
    real = dlsym(RTLD_NEXT, "clock_nanosleep");
  }
  struct timespec at = truly(until);
  return real(clock, flags, is_time_of_day(clock) && (flags & TIMER_ABSTIME) ? &at : until, left);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
  static int (*real)(sem_t *, const struct timespec *);
  if (!real) {
    real = dlsym(RTLD_NEXT, "sem_timedwait");
  }
  struct timespec at = truly(until);
  return real(semaphore, &at);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
  static int (*real)(pthread_mutex_t *, const struct timespec *);
  if (!real) {
    real = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
  }
  struct timespec at = truly(until);
  return real(mutex, &at);
}

int pthread_cond_timedwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!real) {
    real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    real = real ? real : dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  }
  struct timespec at = truly(until);
  int is_monotonic = condition->__data.__wrefs & 2; /* as glibc's pthread_condattr_setclock leaves it */
  return real(condition, mutex, is_monotonic ? until : &at);
}
