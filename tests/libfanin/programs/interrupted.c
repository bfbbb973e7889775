/* A program that a signal interrupts every 0.2 ms. Argument: the socket of a device. It opens the device, says so, and
 * closes it, as often as there are lines of standard input. */
#define _DEFAULT_SOURCE /* setitimer */
#include <fanin/fanin.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { EVERY_US = 200 };

static void interrupt(int signal)
{
    (void)signal;
}

int main(int count, char **arguments)
{
    struct sigaction action = {.sa_handler = interrupt}; /* calls do not go on by themselves */
    struct itimerval often = {{0, EVERY_US}, {0, EVERY_US}};
    struct fanin_context *device;

    if (count != 2 || sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &often, NULL))
        return 1;
    for (;;) {
        int letter = getchar();

        if (letter == EOF && feof(stdin))
            return 0;
        clearerr(stdin);
        if (letter != '\n')
            continue;
        enum fanin_status status = fanin_open(arguments[1], &device);

        puts(fanin_status_name(status));
        fflush(stdout);
        if (status)
            return 1;
        fanin_close(device);
    }
}
